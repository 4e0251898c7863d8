"""National ids: each is looked for only where a policy names it."""

from __future__ import annotations

import re
from collections import Counter

from inference.safety.patterns.checksums import (
    codice_fiscale,
    cpf,
    dni_letter,
    ean13,
    mod11_2,
    mod11_10,
    verhoeff,
)
from inference.safety.patterns.numbers import NUMBER, before, counting, digits, digits_of, inside_another, one_separator
from inference.safety.patterns.reading import LETTER
from inference.safety.patterns.shapes import Match, Rule, chars, either, seq

NAME = rf"[A-Za-z](?<!{LETTER}.)"


def _compact(match: Match) -> str:
    return re.sub(r"[\W_]", "", match.group()).upper()


def _ssn(match: Match) -> bool:
    area, group, serial = re.split(r"\D", match.group())
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000" and one_separator(match)


def _nino(match: Match) -> bool:
    return _compact(match)[:2] not in {"BG", "GB", "KN", "NK", "NT", "TN", "ZZ"}


def _steuer_id(match: Match) -> bool:
    number = digits_of(match)
    most, *others = sorted(Counter(number[:10]).values(), reverse=True)
    return number[0] != "0" and most in (2, 3) and set(others) == {1} and mod11_10(number)


def _dni(match: Match) -> bool:
    code = _compact(match)
    return dni_letter(code[:-1].translate(str.maketrans("XYZ", "012"))) == code[-1]


def _nir(match: Match) -> bool:
    code = _compact(match)
    number = int(code[:13].replace("2A", "19").replace("2B", "18")) if code[5:7] in ("2A", "2B") else int(code[:13])
    return 97 - number % 97 == int(code[13:])


def _codice(match: Match) -> bool:
    return codice_fiscale(match.group().upper())


def _cpf(match: Match) -> bool:
    return cpf(digits_of(match))


def _aadhaar(match: Match) -> bool:
    number = digits_of(match)
    if counting(match) or inside_another(match) or before(match).endswith("-"):
        return False
    return verhoeff(number) and one_separator(match)


def _ahv(match: Match) -> bool:
    return ean13(digits_of(match))


def _resident_id(match: Match) -> bool:
    return mod11_2(match.group().upper())


_GAP, _DASH, _DOT = chars(" ", 0, 1), chars(r" \-", 0, 1), chars(".", 0, 1)
_DAY = either(seq(chars("012"), digits(1)), seq("3", chars("01")))
_MONTH = either(seq("0", chars("1-9")), seq("1", chars("012")))
_LETTER = chars("A-Za-z")

_SSN = seq(digits(3), chars(r" \-"), digits(2), chars(r" \-"), digits(4))
_NINO = seq(chars("A-CEGHJ-PR-TW-Z"), chars("A-CEGHJ-NPR-TW-Z"), *(_GAP, digits(2)) * 3, _GAP, chars("A-D"))
_DNI = seq(digits(8), _DASH, _LETTER)
_NIE = seq(chars("XYZxyz"), _DASH, digits(7), _DASH, _LETTER)
_DEPARTMENT = either(digits(2), "2A", "2B")
_NIR = seq(chars("12"), *(_GAP, digits(2)) * 2, _GAP, _DEPARTMENT, *(_GAP, digits(3)) * 2, _GAP, digits(2))
_CODICE = seq(chars("A-Za-z", 6), digits(2), chars("A-EHLMPR-Ta-ehlmpr-t"), digits(2), _LETTER, digits(3), _LETTER)
_CPF = seq(digits(3), ".", digits(3), ".", digits(3), "-", digits(2))
_AADHAAR = seq(chars("2-9"), digits(3), *(_DASH, digits(4)) * 2)
_AHV = seq("756", *(_DOT, digits(4)) * 2, _DOT, digits(2))
_RESIDENT_ID = seq(chars("1-8"), digits(5), either("19", "20"), digits(2), _MONTH, _DAY, digits(3), chars("0-9Xx"))

_SHAPES = (
    ("us_ssn", NUMBER, _SSN, _ssn),
    ("uk_nino", NAME, _NINO, _nino),
    ("de_steuer_id", NUMBER, digits(11), _steuer_id),
    ("de_steuer_id", NUMBER, seq(digits(2), *(" ", digits(3)) * 3), _steuer_id),
    ("es_dni", NUMBER, _DNI, _dni),
    ("es_dni", NAME, _NIE, _dni),
    ("fr_nir", NUMBER, _NIR, _nir),
    ("it_codice_fiscale", NAME, _CODICE, _codice),
    ("br_cpf", NUMBER, digits(11), _cpf),
    ("br_cpf", NUMBER, _CPF, _cpf),
    ("in_aadhaar", NUMBER, _AADHAAR, _aadhaar),
    ("ch_ahv", NUMBER, _AHV, _ahv),
    ("cn_resident_id", NUMBER, _RESIDENT_ID, _resident_id),
)
_JOINTS = {"in_aadhaar": r" .\-"}  # its groups of four are those of cards and accounts
RULES = tuple(
    Rule(f"personal_data.{name}", start, shape, check, joints=_JOINTS.get(name, r".\-"))
    for name, start, shape, check in _SHAPES
)
