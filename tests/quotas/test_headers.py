"""What responses say of limits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from quotas.headers import NAMES, anthropic_headers, duration, openai_headers
from quotas.standings import UNIT, Need, Standing

NOW = datetime(2026, 3, 31, 12, 0, 0, 500_000, tzinfo=UTC)
NEED = Need(input_tokens=10, max_tokens=20, moment=NOW)


def a_standing(name: str, limit: int = 100, settled: int = 0, reserved: int = 0, **more: Any) -> Standing:
    unit = UNIT if name in ("rpm", "itpm", "otpm") else 1
    return Standing(level="key", name=name, limit=limit, settled=settled * unit, reserved=reserved, **more)


def test_it_works() -> None:
    found = anthropic_headers([a_standing("rpm", 60, settled=30)], NEED, NOW)
    assert found == {
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "30",
        "anthropic-ratelimit-requests-reset": "2026-03-31T12:00:31Z",
    }
    assert found.keys() <= set(NAMES)


def test_the_limit_of_which_the_least_is_left_is_told() -> None:
    found = anthropic_headers([a_standing("rpm", 60, settled=59), a_standing("rpm", 10)], NEED, NOW)
    assert found["anthropic-ratelimit-requests-limit"] == "60"
    assert found["anthropic-ratelimit-requests-remaining"] == "1"


def test_tokens_are_the_sum_where_no_budget_counts_them() -> None:
    found = anthropic_headers([a_standing("itpm", 80, settled=60), a_standing("otpm", 20, reserved=5)], NEED, NOW)
    assert found["anthropic-ratelimit-tokens-limit"] == "100"
    assert found["anthropic-ratelimit-tokens-remaining"] == "35"
    assert found["anthropic-ratelimit-output-tokens-remaining"] == "15"
    assert found["anthropic-ratelimit-tokens-reset"] == found["anthropic-ratelimit-input-tokens-reset"]


def test_tokens_are_those_of_the_budget() -> None:
    standings = [a_standing("itpm"), a_standing("budget_tokens_day", 500, 100, 50), a_standing("budget_tokens", 900)]
    found = anthropic_headers(standings, NEED, NOW)
    assert found["anthropic-ratelimit-tokens-remaining"] == "350"
    assert found["anthropic-ratelimit-tokens-reset"] == "2026-04-01T00:00:00Z"
    assert "anthropic-ratelimit-tokens-reset" not in anthropic_headers([a_standing("budget_tokens")], NEED, NOW)


@pytest.mark.parametrize(
    ("moment", "reset"), [(NOW, "2026-04-01T00:00:00Z"), (NOW.replace(month=12), "2027-01-01T00:00:00Z")]
)
def test_a_month_ends_with_its_last_day(moment: datetime, reset: str) -> None:
    need = Need(input_tokens=1, max_tokens=1, moment=moment)
    found = anthropic_headers([a_standing("budget_tokens_month")], need, moment)
    assert found["anthropic-ratelimit-tokens-reset"] == reset


def test_openais_form() -> None:
    found = openai_headers([a_standing("rpm", 60, settled=1), a_standing("otpm", 600, settled=60)], NEED, NOW)
    assert found == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "540",
        "x-ratelimit-reset-tokens": "6s",
    }
    assert found.keys() <= set(NAMES)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0ms"), (12, "12ms"), (1000, "1s"), (6500, "6.5s"), (360_000, "6m0s"), (3_630_000, "1h0m30s")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_nothing_is_said_where_there_are_no_limits() -> None:
    assert anthropic_headers([], NEED, NOW) == openai_headers([], NEED, NOW) == {}


def test_what_is_over_a_limit_leaves_nothing() -> None:
    found = anthropic_headers([a_standing("budget_tokens", 10, settled=15)], NEED, NOW)
    assert found["anthropic-ratelimit-tokens-remaining"] == "0"
