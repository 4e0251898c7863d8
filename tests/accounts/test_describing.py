"""Keys and limits in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.describing import limits, short
from accounts.models import Organization

SIZES = {"k": 10**3, "M": 10**6, "G": 10**9}


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1"), (999, "999"), (1000, "1k"), (1500, "1.5k"), (1501, "1501"), (1_500_000, "1.5M"), (10**12, "1,000G")],
)
def test_numbers_are_short(number: int, text: str) -> None:
    assert short(number) == text


@given(st.integers(1, 10**12) | st.integers(1, 10**5).map(lambda n: n * 10**6))
def test_and_lose_nothing(number: int) -> None:
    text = short(number).replace(",", "")
    size = SIZES.get(text[-1])
    assert number == (int(text) if size is None else round(float(text[:-1]) * size))


def test_limits_are_read_at_a_glance() -> None:
    assert limits(Organization()) == ""
    assert limits(Organization(shadow=True)) == ""
    some = Organization(rpm=60, budget_tokens_month=50_000_000, shadow=True)
    assert limits(some) == "60 rpm, 50M tokens/month (shadow)"
