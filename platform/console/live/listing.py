"""What of the table a page shows: searched, filtered, sorted, a hundred rows at a time. Its script does the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.live.rows import STATES, Row

PAGE = 100
FILTERS = ("state", "model", "worker", "organization")


@dataclass(frozen=True, slots=True)
class Column:
    """A column; one with a `sort` is a link that sorts by it. Numbers stand to the right."""

    name: str
    label: str
    sort: Callable[[Row, float], Any] | None = None
    number: bool = False
    about: str = ""


COLUMNS = (
    Column("id", "Message", lambda row, _: row.id),
    Column("key", "Key", lambda row, _: row.key.lower()),
    Column("organization", "Organisation", lambda row, _: row.organization.lower()),
    Column("model", "Model", lambda row, _: row.model),
    Column("worker", "Worker", lambda row, _: row.worker),
    Column("gateway", "Gateway", lambda row, _: row.gateway),
    Column("state", "State", lambda row, _: list(STATES).index(row.state)),
    Column("tokens", "Tokens", lambda row, _: row.tokens, number=True, about="Tokens released to the stream"),
    Column("rate", "Tokens/s", lambda row, now: rate(row, now) or 0.0, number=True, about="Since the first token"),
    Column("age", "Age", lambda row, now: now - row.came, number=True, about="Since the request came"),
    Column("ttft", "TTFT", lambda row, _: row.ttft, number=True, about="From the request to the first released token"),
    Column("unsent", "Buffer", lambda row, _: row.unsent, number=True, about="Events that a slow reader was not sent"),
    Column("attempt", "Try", lambda row, _: row.attempt, number=True, about="How often a worker has begun it"),
)
SORTS = {column.name: column.sort for column in COLUMNS if column.sort}


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for: `filters` by their names, and a column to sort by, after a `-` from the greatest down."""

    search: str
    filters: Mapping[str, str]
    sort: str
    page: int


def wish_of(query: Mapping[str, str]) -> Wish:
    """Read a query; what is no sensible value counts as not given."""
    sort, page = query.get("o", ""), query.get("page", "")
    return Wish(
        search=query.get("q", "").strip(),
        filters={name: query.get(name, "") for name in FILTERS},
        sort=sort if sort.removeprefix("-") in SORTS else "",
        page=max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) < 6 else 1,
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of rows, of how many that were found, and what can be filtered by."""

    rows: Sequence[Row]
    found: int
    page: int
    pages: int
    options: Mapping[str, Sequence[str]]


def listing(rows: Sequence[Row], wish: Wish, now_ms: float) -> Listing:
    """Return what was wished for; a page past the last is the last."""
    found = [row for row in rows if _fits(row, wish)]  # in the order of `picture`, which sorting keeps among equals
    if key := SORTS.get(wish.sort.removeprefix("-")):
        found.sort(key=lambda row: key(row, now_ms), reverse=wish.sort.startswith("-"))
    pages = max(1, -(-len(found) // PAGE))
    page = min(wish.page, pages)
    options = {name: _options(rows, name, wish.filters[name]) for name in FILTERS}
    return Listing(found[(page - 1) * PAGE : page * PAGE], len(found), page, pages, options)


def places(rows: Iterable[Row]) -> dict[str, int]:
    """Return where in its model's queue each stands that waits, from 1; `rows` lack none ahead of another."""
    found: dict[str, int] = {}
    ahead: Counter[str] = Counter()
    for row in sorted((row for row in rows if row.turn >= 0), key=lambda row: (row.turn, row.id)):
        ahead[row.model] += 1
        found[row.id] = ahead[row.model]
    return found


def rate(row: Row, now_ms: float) -> float | None:
    """Return tokens per second since the first; None before there is a time to speak of."""
    seconds = (now_ms - row.came - row.ttft) / 1000
    return row.tokens / seconds if row.ttft >= 0 and seconds >= 0.5 else None


def _fits(row: Row, wish: Wish) -> bool:
    if any(value and value != getattr(row, name) for name, value in wish.filters.items()):
        return False
    search = wish.search.lower()
    return not search or any(search in text.lower() for text in (row.id, row.key, row.organization))


def _options(rows: Iterable[Row], name: str, chosen: str) -> Sequence[str]:
    if name == "state":
        return list(STATES)
    return sorted({getattr(row, name) for row in rows} - {"", chosen}) + ([chosen] if chosen else [])
