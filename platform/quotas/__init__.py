"""Limits of keys and organisations. So far none: every request is admitted."""
