"""The REST endpoints that are not streams."""
