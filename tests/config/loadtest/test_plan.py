from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from config.loadtest.arrivals import Closed, Ramp
from config.loadtest.plan import Plan, header_value, is_local, positive, ramp, share, url, whole_number, words


def test_it_works() -> None:
    assert (whole_number(1)("8"), positive("0.5"), share("1"), ramp("0:20")) == (8, 0.5, 1.0, Ramp(0, 20))
    assert url("https://example.org:8443/base") == "https://example.org:8443/base"
    assert header_value(" sk-1 ") == "sk-1"


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        *((whole_number(1), text, "whole number from 1 on") for text in ("0", "-1", "1.5", "x", "", "²")),
        *((positive, text, "number above 0") for text in ("0", "-1", "inf", "nan", "x")),
        *((share, text, "share from 0 to 1") for text in ("-0.1", "1.1", "nan", "half")),
        *((ramp, text, "FROM:TO in requests a second") for text in ("5", "1:", ":2", "0:0", "-1:2", "1:2:3")),
        *((url, text, "http://HOST:PORT") for text in ("localhost:8000", "ftp://x", "http://", "http://x:0x", "http://x/?a")),
        *((url, text, "http://HOST:PORT") for text in ("http://x:99999", "http://x\r\ny", "http://a b")),
        (words, "  ", "some text"),
        *((header_value, text, "printable ASCII") for text in ("", "a\nb", "ü")),
    ],
)  # fmt: skip
def test_it_rejects_what_will_not_do(read: Callable[[str], object], text: str, expected: str) -> None:
    with pytest.raises(ArgumentTypeError, match=expected):
        read(text)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:8000", "http://localhost", "https://[::1]:1", "http://127.1.2.3"]
)
def test_this_machine_is_local(address: str) -> None:
    assert is_local(address)


@pytest.mark.parametrize("address", ["http://10.0.0.1", "http://localhost.example.org", "http://128.0.0.1"])
def test_others_are_not(address: str) -> None:
    assert not is_local(address)


def test_prompts_are_alike_unless_they_shall_not_be() -> None:
    plan = Plan(url="http://x", key="k", load=Closed(1), prompt="Why?")
    unique = Plan(url="http://x", key="k", load=Closed(1), prompt="Why?", unique=True, seed=3)

    assert {plan.prompt_of(n) for n in range(9)} == {"Why?"}
    assert [unique.prompt_of(n) for n in range(2)] == ["Why? #3-0", "Why? #3-1"]
