"""What /metrics has: name, kind, labels and a line about each, from the code that exposes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streaming.scrape import Scrape, Snapshot

SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


@dataclass(frozen=True)
class Exposed:
    name: str  # as it is shown, and a histogram's without its parts
    kind: str
    labels: tuple[str, ...]
    about: str

    @property
    def row(self) -> str:
        """One line of the table in docs/metrics.md."""
        labels = ", ".join(f"`{label}`" for label in self.labels)
        return f"| `{self.name}` | {self.kind} | {labels} | {self.about} |"


def exposed() -> list[Exposed]:
    """Return all metrics, in order."""
    families = list(Scrape(Snapshot()).collect())
    return [
        Exposed(
            family.name + ("_total" if family.type == "counter" else ""),
            family.type,
            tuple(getattr(family, "_labelnames", ())),
            family.documentation,
        )
        for family in families
    ]


def series() -> dict[str, set[str]]:
    """Return the labels of everything that can be asked for, by its name."""
    return {name: labels for each in exposed() for name, labels in _series_of(each)}


def _series_of(each: Exposed) -> Iterator[tuple[str, set[str]]]:
    for suffix in SUFFIXES[each.kind]:
        name = each.name if each.kind == "counter" else each.name + suffix
        yield name, {*each.labels} | ({"le"} if suffix == "_bucket" else set())
