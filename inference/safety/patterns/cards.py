"""Numbers of payment cards."""

from __future__ import annotations

import re

from inference.safety.patterns.checksums import luhn
from inference.safety.patterns.numbers import NUMBER, counting, digits, digits_of
from inference.safety.patterns.shapes import Match, Rule, chars, either, seq

CARD = "personal_data.card"

_ISSUERS = re.compile(
    "|".join(
        (
            r"4(?:\d{12}|\d{15}|\d{18})",  # Visa
            r"(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}",  # Mastercard
            r"3[47]\d{13}",  # American Express
            r"(?:6011|64[4-9]\d|65\d\d|60\d\d|8[12]\d\d|508\d)\d{12,15}",  # Discover, RuPay
            r"3(?:0[0-5]\d|095|6\d\d|[89]\d\d)\d{10,15}",  # Diners Club
            r"35(?:2[89]|[3-8]\d)\d{12,15}",  # JCB
            r"62\d{14,17}",  # UnionPay
            r"(?:50\d\d|5[6-8]\d\d|6[37]\d\d)\d{9,15}",  # Maestro
            r"220[0-4]\d{12,15}",  # Mir
        )
    )
)


def _genuine(match: Match) -> bool:
    number = digits_of(match)
    return _ISSUERS.fullmatch(number) is not None and luhn(number) and not counting(match)


_FOUR = seq(either(seq(chars("3-6"), digits(1)), seq("2", chars("2-7")), seq("8", chars("12"))), digits(2))
_GAP, _MAYBE = chars(r" .\-"), chars(r" .\-", 0, 1)
_SHAPES = (
    seq(_FOUR, digits(9, 15)),
    seq(_FOUR, _MAYBE, digits(4), _MAYBE, digits(4), _MAYBE, digits(4), _MAYBE, digits(3)),
    seq(_FOUR, _MAYBE, digits(4), _MAYBE, digits(4), _MAYBE, digits(1, 4)),
    seq(_FOUR, _GAP, digits(6), _GAP, digits(4, 5)),
)
RULES = tuple(Rule(CARD, NUMBER, shape, _genuine, joints=r".\-") for shape in _SHAPES)
