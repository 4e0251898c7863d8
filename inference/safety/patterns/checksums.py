"""Check digits of cards, accounts and national ids."""

from __future__ import annotations

# Verhoeff's tables: multiplication in the dihedral group of order ten, and the permutation by place.
_TIMES = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_PERMUTED = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip

_CODICE_ODD = dict(zip("0123456789", (1, 0, 5, 7, 9, 13, 15, 17, 19, 21), strict=True)) | dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)


def luhn(digits: str) -> bool:
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


def mod97(iban: str) -> bool:
    """ISO 13616: letters are numbers from 10 on, the first four characters come last."""
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


def verhoeff(digits: str) -> bool:
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_TIMES[check][int(_PERMUTED[place % 8][int(digit)])])
    return check == 0


def mod11_10(digits: str) -> bool:
    """ISO 7064, hybrid."""
    product = 10
    for digit in digits[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def mod11_2(digits: str) -> bool:
    """ISO 7064; an X at the end is a ten."""
    total = 0
    for digit in digits[:-1]:
        total = (total + int(digit)) * 2 % 11
    return (total + (10 if digits[-1] == "X" else int(digits[-1]))) % 11 == 1


def dni_letter(digits: str) -> str:
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23]


def cpf(digits: str) -> bool:
    def check(body: str) -> int:
        return sum(weight * int(digit) for weight, digit in enumerate(reversed(body), start=2)) * 10 % 11 % 10

    return len(set(digits)) > 1 and check(digits[:9]) == int(digits[9]) and check(digits[:10]) == int(digits[10])


def codice_fiscale(code: str) -> bool:
    values = (_CODICE_ODD[c] if place % 2 == 0 else int(c, 36) - 10 * c.isalpha() for place, c in enumerate(code[:15]))
    return ord(code[15]) - ord("A") == sum(values) % 26


def ean13(digits: str) -> bool:
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0
