from __future__ import annotations

import pytest

from inference.safety.patterns import CATEGORIES, PatternSet
from tests.inference.safety.patterns.samples import BLOCKLISTS


@pytest.fixture(scope="session")
def every() -> PatternSet:
    """All that there is to be looked for."""
    return PatternSet([*CATEGORIES, "blocklist"], BLOCKLISTS)
