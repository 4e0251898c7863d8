"""What can be told by its form: secrets, personal data, and operators' phrases, in texts that come in pieces."""

from inference.safety.patterns.catalog import BY_NAME_ONLY, CATEGORIES
from inference.safety.patterns.hits import Hit
from inference.safety.patterns.scan import PatternScan, PatternSet

__all__ = ["BY_NAME_ONLY", "CATEGORIES", "Hit", "PatternScan", "PatternSet"]
