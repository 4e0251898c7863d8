"""Organisations and their API keys."""
