"""Load on a streaming server, and what its clients feel: `manage.py loadtest`."""
