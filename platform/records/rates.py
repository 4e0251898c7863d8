"""How many triggers there were over time, by category: a chart of stacked bars, without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, QuerySet

from records.triggers import SafetyTrigger

WIDTH, HEIGHT = 960, 160  # of the bars, in the chart's own unit
SHOWN = 7  # categories with a colour of their own
OTHERS = "others"
HOUR_S = 3600
HOURLY_HOURS = 8 * 24  # what is not longer has a bar for each hour, else for each day
MOST_DAYS = 366  # the last ones of a longer time
USUAL = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Span:
    """A time of so many `bars`, `hours` each; `first` is its first hour since the epoch. Days are UTC's."""

    first: int
    bars: int
    hours: int

    @classmethod
    def between(cls, begin: datetime, end: datetime) -> Span:
        """Return the span of full hours, or days, that a time lies in."""
        first, last = _hour(begin), max(_hour(begin), _hour(end - timedelta(microseconds=1)))
        if last - first < HOURLY_HOURS:
            return cls(first, last - first + 1, 1)
        bars = min(last // 24 - first // 24 + 1, MOST_DAYS)
        return cls((last // 24 - bars + 1) * 24, bars, 24)

    @property
    def end(self) -> int:
        """The first hour after it."""
        return self.first + self.bars * self.hours

    def title_of(self, place: int) -> str:
        """Return what a bar stands for."""
        when = _moment(self.first + place * self.hours)
        return f"{when:%Y-%m-%d %H:%M}" if self.hours == 1 else f"{when:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle; `colour` is the place of its category in the legend, from 0."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """All that a template draws."""

    title: str
    bars: list[Bar]
    legend: list[tuple[str, int]]  # category, how many
    total: int
    highest: int
    begin: str
    end: str


def chart_of(triggers: QuerySet[SafetyTrigger], span: Span) -> Chart:
    """Return the chart of some triggers. What the database reads is bounded by the span, and in an index."""
    counts = _counted(triggers, span)
    in_all: Counter[str] = Counter()
    for (_, category), number in counts.items():
        in_all[category] += number
    own = [category for category, _ in sorted(in_all.items(), key=lambda row: (-row[1], row[0]))[:SHOWN]]
    legend = [(category, in_all[category]) for category in own]
    if others := in_all.total() - sum(number for _, number in legend):
        legend.append((OTHERS, others))
    stacks = _stacks(counts, own, span)
    highest = max(map(sum, stacks))
    return Chart(
        f"Triggers per {'hour' if span.hours == 1 else 'day'}",
        list(_bars(stacks, span, [name for name, _ in legend], highest)),
        legend,
        in_all.total(),
        highest,
        span.title_of(0),
        span.title_of(span.bars - 1),
    )


def _counted(triggers: QuerySet[SafetyTrigger], span: Span) -> Counter[tuple[int, str]]:
    """Return how many there were at each place, of each category."""
    rows = triggers.filter(hour__gte=span.first, hour__lt=span.end).order_by().values_list("hour", "category")
    counts: Counter[tuple[int, str]] = Counter()
    for hour, category, number in rows.annotate(number=Count("*")):
        counts[(hour - span.first) // span.hours, category] += number
    return counts


def _stacks(counts: Counter[tuple[int, str]], own: list[str], span: Span) -> list[list[int]]:
    """Return how many there were at each place, by the legend's order."""
    stacks = [[0] * (len(own) + 1) for _ in range(span.bars)]
    for (place, category), number in counts.items():
        stacks[place][own.index(category) if category in own else -1] += number
    return stacks


def _bars(stacks: list[list[int]], span: Span, names: list[str], highest: int) -> Iterator[Bar]:
    slot = WIDTH / span.bars
    for place, stack in enumerate(stacks):
        top = float(HEIGHT)
        for colour, number in enumerate(stack):
            if number:
                height = HEIGHT * number / highest
                top -= height
                x, y, width = round((place + 0.1) * slot, 2), round(top, 2), round(0.8 * slot, 2)
                yield Bar(x, y, width, round(height, 2), colour, f"{span.title_of(place)} {names[colour]}: {number}")


def _hour(moment: datetime) -> int:
    return int(moment.timestamp()) // HOUR_S


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * HOUR_S, UTC)
