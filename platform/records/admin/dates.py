"""The way from years to a day above a list: links to all dates between the first row and the last."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from itertools import takewhile
from typing import Any

from django.utils.formats import date_format

Choice = dict[str, str]


class DateLinks:
    """What Django's date hierarchy shows, of the same parameters; Django's own looks at each row for it."""

    def __init__(self, field: str, params: Mapping[str, Any], query_string: Callable[..., str]) -> None:
        self.names = [f"{field}__{part}" for part in ("year", "month", "day")]
        self._prefix = f"{field}__"
        self._params, self._query_string = params, query_string

    def shown(self, first: date | None, last: date | None) -> dict[str, Any]:
        """Return what the template needs; the parameters have to be those of a date."""
        if first is None or last is None:
            return {"show": False}
        asked = [int(self._params[name]) for name in takewhile(self._params.__contains__, self.names)]
        back = self._link(asked[:-1]) if asked else None
        if not asked and first.year == last.year:
            asked = [first.year]
        if len(asked) == 3:
            return {"show": True, "back": back, "choices": [{"title": _title(asked)}]}
        choices = [self._link([*asked, part]) for part in _parts(asked, list(_numbers(first)), list(_numbers(last)))]
        return {"show": True, "back": back, "choices": choices}

    def _link(self, date_parts: list[int]) -> Choice:
        filters = dict(zip(self.names, date_parts, strict=False))
        return {"link": self._query_string(filters, [self._prefix]), "title": _title(date_parts)}


def _numbers(day: date) -> tuple[int, int, int]:
    return day.year, day.month, day.day


def _parts(asked: list[int], first: list[int], last: list[int]) -> Iterator[int]:
    """Yield the years, the months of a year or the days of a month between two dates."""
    size = len(asked) + 1
    ranges = (range(first[0], last[0] + 1), range(1, 13), range(1, 1 + (monthrange(*asked)[1] if size == 3 else 0)))
    return (part for part in ranges[size - 1] if first[:size] <= [*asked, part] <= last[:size])


def _title(date_parts: list[int]) -> str:
    match date_parts:
        case [year, month, day]:
            return date_format(date(year, month, day), "MONTH_DAY_FORMAT")
        case [year, month]:
            return date_format(date(year, month, 1), "YEAR_MONTH_FORMAT")
        case [year]:
            return str(year)
    return "All dates"
