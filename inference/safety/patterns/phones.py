"""Phone numbers: international ones, and national ones in forms that little else has.

A run of digits alone is no phone number, unless the word before it says so.
"""

from __future__ import annotations

import re
from unicodedata import normalize

from inference.safety.patterns.numbers import NUMBER, before, digits, digits_of, inside_another
from inference.safety.patterns.shapes import Match, Rule, chars, either, repeat, seq

PHONE = "personal_data.phone"

_CALLING_CODES = re.compile(
    r"1|7|2(?:[07]|[1-689]\d)|3(?:[0-469]|[578]\d)|4(?:[013-9]|2\d)|5(?:[1-8]|[09]\d)|6(?:[0-6]|[789]\d)"
    r"|8(?:[1246]|[05-8]\d)|9(?:[0-58]|[679]\d)"
)
_OTHER_NUMBERS = re.compile(
    r"(?:#|\b(?:order|invoice|ticket|case|ref|reference|serial|part|item|sku|version|bestellung|rechnung|auftrag|commande"
    r"|facture|pedido|factura|ordine|fattura|заказ)s?\W{0,2}(?:number|no|nr|id)?)\W{0,3}\Z",
    re.IGNORECASE,
)
_DATE = re.compile(r"\+?\d{4}-\d\d?-\d\d?")
_YEAR = re.compile(r"\((?:19|20)\d\d\)")


def _international(match: Match) -> bool:
    number = digits_of(match).removeprefix("00")
    code = _CALLING_CODES.match(number)
    if code is None or not 9 <= len(number) <= 15 or _DATE.match(match.group()):
        return False
    if code.group() == "1":
        return re.fullmatch(r"1[2-9]\d\d[2-9]\d{6}", number) is not None
    return number[code.end()] != "0" or "(0)" in match.group() or code.group() in ("39", "225")


def _with_zeros(match: Match) -> bool:
    return not match.group().isdigit() and _free(match) and _international(match)


def _national(match: Match) -> bool:
    if not _free(match) or _YEAR.match(match.group()) or _growing(match.group()):
        return False
    return 9 <= len(digits_of(match)) <= 12


def _free(match: Match) -> bool:
    """Say whether what stands before it does not make it a number of something else."""
    return not _OTHER_NUMBERS.search(before(match)) and not inside_another(match)


def _american(match: Match) -> bool:
    return _national(match) and len({c for c in match.group() if c in "-. "}) == 1


def _growing(number: str) -> bool:
    """Say whether it is a row of growing numbers, as in a draw."""
    numbers = [int(group) for group in re.split(r"\D+", number) if group]
    return len(numbers) > 3 and numbers == sorted(numbers)


_AREA = seq(chars("2-9"), digits(2))
_INTERNATIONAL = seq(chars("1-9"), repeat(seq(chars(r" .\-/()", 0, 2), digits(1)), 7, 14))
_DASH = chars(r" \-")
_BRACKETED = seq(
    "(", chars("0", 0, 1), digits(2, 5), ")", chars(" ", 0, 1), digits(3, 5), chars(r" \-", 0, 1), digits(3, 5)
)
_TRUNK = seq("0", chars("1-9"), digits(1, 4), chars(r" /\-"), digits(3, 8), repeat(seq(_DASH, digits(2, 5)), 0, 2))
_PAIRS = seq("0", chars("1-9"), repeat(seq(chars(r" .\-"), digits(2)), 4, 4))
_SHAPES = (
    (seq("+", _INTERNATIONAL), _international),
    (seq("00", _INTERNATIONAL), _with_zeros),
    (seq(either("1-", "1 ", "1.", ""), _AREA, chars(r".\-"), _AREA, chars(r".\-"), digits(4)), _american),
    (_BRACKETED, _national),
    (_TRUNK, _national),
    (seq("0", chars("1-9"), _DASH, digits(3, 4), _DASH, digits(4)), _national),
    (_PAIRS, _national),
    (seq("1", chars("3-9"), digits(1), _DASH, digits(4), _DASH, digits(4)), _national),
)

_WORDS = "fax handy mobil mobile movil cell phone signal tel telefon telefono telephone whatsapp тел телефон"
_UNSPACED_WORDS = "电话 電話 手机 전화"
_TOLD = "|".join(
    rf"(?<={boundary}{normalize('NFKD', word)}{between}.)"
    for boundary, words in ((r"(?<!\w)", _WORDS), ("", _UNSPACED_WORDS))
    for word in words.split()
    for between in (r"[\s.:=#]", r"[.:=#][\s:]", r"[.]:\s")
)
_TOLD_START = rf"[0-9(](?i:{_TOLD})"
_TOLD_SHAPE = seq(chars("(", 0, 1), repeat(seq(digits(1), chars(r" ./()\-", 0, 2)), 6, 11), digits(1))


def _told(match: Match) -> bool:
    return not _DATE.match(match.group())


RULES = (
    *(Rule(PHONE, NUMBER, shape, check, joints=r" .\-/") for shape, check in _SHAPES),
    Rule(PHONE, _TOLD_START, _TOLD_SHAPE, _told, joints=r" .\-/"),
)
