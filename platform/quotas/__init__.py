"""Limits of keys and organisations: kept at admission, exact whatever dies."""
