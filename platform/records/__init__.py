"""Request records: one row per admitted message."""
