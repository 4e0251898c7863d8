"""International bank account numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inference.safety.patterns.checksums import mod97
from inference.safety.patterns.numbers import digits
from inference.safety.patterns.reading import LETTER
from inference.safety.patterns.shapes import Match, Rule, Shape, chars, either, repeat, seq

IBAN = "personal_data.iban"

# Length by country, from the registry of ISO 13616.
_LENGTHS = {
    15: "NO", 16: "BE", 18: "DK FI FO GL NL FK SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH CR HR LI LV",
    22: "BG BH DE GB GE IE ME RS VA", 23: "AE GI IL IQ TL OM SO", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
_COUNTRIES = " ".join(_LENGTHS.values()).split()

# What all of them begin with; to ask for their lengths here as well would cost more than it would let go earlier.
_START = rf"[A-Za-z](?<!{LETTER}.)(?:\Z|[A-Za-z](?:\Z|[0-9]))"
_NEXT = seq(chars(r" \-", 0, 1), chars("A-Za-z0-9"))


def _shape(countries: Iterable[str], least: int, most: int) -> Shape:
    cases = [written for country in countries for written in (country, country.lower())]
    return seq(either(*cases), digits(2), repeat(_NEXT, least - 4, most - 4))


_BEGUN = _shape(_COUNTRIES, 4, max(_LENGTHS)).begun


def _genuine(match: Match) -> bool:
    return mod97(re.sub("[ -]", "", match.group()).upper())


RULES = tuple(
    Rule(IBAN, _START, Shape(_shape(countries.split(), length, length).whole, _BEGUN), _genuine)
    for length, countries in _LENGTHS.items()
)
