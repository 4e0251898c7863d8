"""Serializer fields that take a value as it is meant, and never make one of another type of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from accounts.models import ONE_LINE


class WholeNumber(serializers.IntegerField):
    """A whole number within bounds; null where `allow_null`."""

    def __init__(self, *, min_value: int, max_value: int, **more: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **more)
        or_null = " or null" if self.allow_null else ""
        self.error_messages |= _always(f"expected a whole number from {min_value} to {max_value}{or_null}.")
        self.validators = []
        self._bounds = range(min_value, max_value + 1)

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int or data not in self._bounds:
            self.fail("invalid")
        return int(data)


class Text(serializers.CharField):
    """Text of one line."""

    def __init__(self, *, max_length: int, **more: Any) -> None:
        super().__init__(max_length=max_length, **more)
        self.error_messages |= _always(f"expected text of 1 to {max_length} characters on one line.")
        self.validators = []

    def to_internal_value(self, data: Any) -> str:
        text = data.strip() if isinstance(data, str) else ""
        if not 0 < len(text) <= (self.max_length or 0) or not ONE_LINE.fullmatch(text):
            self.fail("invalid")
        return str(text)


class Flag(serializers.BooleanField):
    """True or false."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.error_messages |= _always("expected true or false.")

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return bool(data)


class WordOrNull(serializers.ChoiceField):
    """One of some words; null, which is "" in the database, where a level above decides."""

    def __init__(self, choices: tuple[str, ...], **more: Any) -> None:
        super().__init__(choices=choices, allow_null=True, **more)
        self.error_messages["invalid_choice"] = f"expected {', '.join(choices)} or null."

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid_choice", input=data)
        return str(super().to_internal_value(data))

    def run_validation(self, data: Any = serializers.empty) -> Any:
        return "" if data is None else super().run_validation(data)

    def to_representation(self, value: Any) -> Any:
        return value or None


class NameOrNull(serializers.CharField):
    """One of the names that there are at the time; null as in `WordOrNull`."""

    default_error_messages = {"unknown": "expected {names} or null."}

    def __init__(self, names: Callable[[], Sequence[str]], **more: Any) -> None:
        super().__init__(allow_null=True, **more)
        self._names = names

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is None:
            return ""
        if data is not serializers.empty and data not in (names := self._names()):
            self.fail("unknown", names=", ".join(names))
        return super().run_validation(data)

    def to_representation(self, value: Any) -> Any:
        return value or None


class Words(serializers.ListField):
    """A list of different words."""

    def __init__(self, known: tuple[str, ...] | None = None, *, expected: str, most: int, **more: Any) -> None:
        super().__init__(**more)
        self.error_messages |= _always(expected)
        self.known, self.most = known, most

    def to_internal_value(self, data: Any) -> list[str]:
        good = isinstance(data, list) and 0 < len(data) <= self.most and all(isinstance(word, str) for word in data)
        if not good or any(self.known is not None and word not in self.known for word in data):
            self.fail("not_a_list")
        return list(dict.fromkeys(data))


class Moment(serializers.DateTimeField):
    """A time to come, as ISO 8601 has it; null where `allow_null`."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.error_messages |= _always("expected a time to come such as 2030-01-31T12:00:00Z.")

    def to_internal_value(self, data: Any) -> datetime:
        when: datetime = super().to_internal_value(data)
        if when <= timezone.now():
            self.fail("invalid")
        return when


def _always(expected: str) -> dict[str, str]:
    """Return one complaint for all that can be wrong with a value."""
    return dict.fromkeys(
        ("invalid", "null", "blank", "not_a_list", "empty", "date", "overflow", "make_aware"), expected
    )
