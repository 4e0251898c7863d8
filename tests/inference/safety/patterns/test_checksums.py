from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.safety.patterns import PatternSet
from inference.safety.patterns.checksums import cpf, ean13, luhn, mod11_2, mod11_10, mod97, verhoeff
from tests.inference.safety.patterns.samples import PERSONAL

NUMBERS: dict[str, tuple[Callable[[str], bool], int]] = {
    "luhn": (luhn, 16),
    "verhoeff": (verhoeff, 12),
    "mod11_10": (mod11_10, 11),
    "mod11_2": (mod11_2, 18),
    "ean13": (ean13, 13),
}


@pytest.mark.parametrize("number", ["4111111111111111", "378282246310005", "0"])
def test_it_works(number: str) -> None:
    assert luhn(number)


@pytest.mark.parametrize("name", NUMBERS)
@given(data=st.data())
def test_every_number_has_one_check_digit_and_one_wrong_digit_shows(name: str, data: st.DataObject) -> None:
    check, length = NUMBERS[name]
    body = data.draw(st.text("0123456789", min_size=length - 1, max_size=length - 1))
    digits = "0123456789X" if name == "mod11_2" else "0123456789"
    (number,) = (body + digit for digit in digits if check(body + digit))
    at, digit = data.draw(st.integers(0, length - 2)), data.draw(st.sampled_from("0123456789"))
    assert check(number[:at] + digit + number[at + 1 :]) == (digit == number[at])


@given(body=st.text("0123456789", min_size=18, max_size=18), at=st.integers(0, 17), digit=st.sampled_from("0123456789"))
def test_one_wrong_digit_shows_in_an_account(body: str, at: int, digit: str) -> None:
    (iban,) = (f"DE{check:02}{body}" for check in range(2, 99) if mod97(f"DE{check:02}{body}"))
    assert mod97(iban[: 4 + at] + digit + iban[5 + at :]) == (digit == body[at])


@given(body=st.text("0123456789", min_size=9, max_size=9).filter(lambda body: len(set(body)) > 1))
def test_a_cpf_has_two_check_digits(body: str) -> None:
    assert len([end for end in range(100) if cpf(f"{body}{end:02}")]) == 1


@pytest.mark.parametrize("name", sorted(PERSONAL.keys() - {"email", "phone", "us_ssn", "uk_nino"}))
def test_one_wrong_digit_is_refused(name: str) -> None:
    patterns, sample = PatternSet([f"personal_data.{name}"]), PERSONAL[name]
    assert patterns.find(sample)
    for at, right in enumerate(sample):
        for digit in "0123456789":
            if right.isdigit() and digit != right:
                assert not patterns.find(sample[:at] + digit + sample[at + 1 :]), (at, digit)
