"""The page at /docs/: how to use the API, and a reference that is made from its schema."""
