"""The SLO dashboard, and where the latency hides."""
