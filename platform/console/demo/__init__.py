"""The page at /demo/: a chat in the browser that shows every event of its streams."""
