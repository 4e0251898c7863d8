"""What admission says of limits, as a batch heeds it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from accounts.callers import Caller, Quota
from quotas.standings import UNIT, Need, Standing
from streaming.batches.database import modest
from streaming.batches.submission import LONGEST_S, Pace

NOW = datetime(2026, 1, 31, tzinfo=UTC)
NEED = Need(input_tokens=10, max_tokens=20, moment=NOW)


def standing(name: str, limit: int, *, used: float = 0, reserved: int = 0) -> Standing:
    settled = int(used * UNIT) if name in ("rpm", "itpm", "otpm") else int(used)
    return Standing(level="key", name=name, limit=limit, settled=settled, reserved=reserved)


def pace_of(*standings: Standing) -> Pace:
    pace = Pace()
    assert pace(standings, NEED, NOW) == {}
    return pace


@pytest.mark.parametrize(("limit", "is_too_large"), [(19, True), (20, False)])
def test_it_tells_what_never_fits(limit: int, is_too_large: bool) -> None:
    assert pace_of(standing("otpm", limit)).is_too_large == is_too_large


@pytest.mark.parametrize(
    ("used", "reserved", "rest_s"), [(0, 0, 0), (30, 0, 0), (40, 0, 10), (30, 5, 5), (60, 0, 30), (60, 60, LONGEST_S)]
)
def test_it_rests_until_half_of_a_rate_is_free(used: float, reserved: int, rest_s: float) -> None:
    assert pace_of(standing("rpm", 60, used=used, reserved=reserved)).rest_s == pytest.approx(rest_s)


def test_a_budget_may_be_spent_whole() -> None:
    assert pace_of(standing("budget_tokens", 100, used=90)).rest_s == 0


def test_a_batch_has_half_of_the_places_for_streams() -> None:
    caller = Caller("key_1", "org_1", frozenset(), key_quota=Quota(max_streams=1, rpm=5), organization_quota=Quota())
    found = modest(caller)
    assert (found.priority, found.key_quota, found.organization_quota) == ("batch", caller.key_quota, Quota())
    wide = Caller("key_1", "org_1", frozenset(), organization_quota=Quota(max_streams=9))
    assert modest(wide).organization_quota.max_streams == 4
