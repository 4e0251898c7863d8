from __future__ import annotations

import pytest

from streaming.proxy_wait import waited_ms

NOW = 1_800_000_000.25


@pytest.mark.parametrize("header", ["t=1800000000.125", "1800000000125", "t=1800000000125000", " t=1800000000.125 "])
def test_it_works(header: str) -> None:
    assert waited_ms(header, NOW) == pytest.approx(125, abs=0.01)


@pytest.mark.parametrize("header", ["", "t=", "yesterday", "nan", "inf", "-1", "12", "t=1800000001", "t=1799990000"])
def test_what_cannot_be_is_left_out(header: str) -> None:
    assert waited_ms(header, NOW) is None
