"""Looks at all that the platform needs, and says what to do about what is not as it should be."""
