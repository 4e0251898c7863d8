from __future__ import annotations

from inference.protocol.categories import NATIONAL_IDS, PATTERNS
from inference.safety.patterns import BY_NAME_ONLY, CATEGORIES


def test_policies_can_name_what_there_is() -> None:
    assert {*PATTERNS, *NATIONAL_IDS} == {*CATEGORIES}
    assert {*NATIONAL_IDS} == BY_NAME_ONLY
