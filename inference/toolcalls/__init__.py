"""Tool calls in a model's text, read as they are written."""
