"""The operators' pages inside the admin, and the demo."""
