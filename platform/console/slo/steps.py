"""From the steps of a picture to fewer and wider ones: as many as a chart has room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from inference.protocol.sketches import Sketch
from slo.picture import Picture

MOST = 120  # a month by six hours, six hours by three minutes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps that are `width` of a picture's wide. The last one may be cut short, as the picture is."""

    starts: Sequence[int]  # seconds since the epoch
    step_s: int
    width: int

    @classmethod
    def of(cls, picture: Picture, most: int = MOST) -> Steps:
        """Return no more steps than `most` for a picture."""
        width = max(1, -(-len(picture.starts) // most))
        return cls(picture.starts[::width], picture.step_s * width, width)

    def sums(self, counts: Sequence[int]) -> list[int]:
        """Add counts up."""
        return [sum(part) for part in self._parts(counts)]

    def merged(self, sketches: Sequence[Sketch | None]) -> list[Sketch | None]:
        """Merge distributions."""
        return [_merged(part) for part in self._parts(sketches)]

    def means(self, values: Sequence[float | None], weights: Sequence[float] = ()) -> list[float | None]:
        """Return the means of what is known, weighted where there are weights."""
        if self.width == 1:
            return list(values)
        pairs = list(zip(values, weights or [1.0] * len(values), strict=True))
        return [_mean(part) for part in self._parts(pairs)]

    def _parts(self, values: Sequence[T]) -> Iterator[Sequence[T]]:
        return (values[first : first + self.width] for first in range(0, len(values), self.width))


def weighted_mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the mean of what is known; a plain one where nothing known has any weight."""
    return _mean(list(zip(values, weights, strict=True)))


def _mean(pairs: Sequence[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None]
    if total := sum(weight for _, weight in known):
        return sum(value * weight for value, weight in known) / total
    return sum(value for value, _ in known) / len(known) if known else None


def _merged(sketches: Sequence[Sketch | None]) -> Sketch | None:
    found = [sketch for sketch in sketches if sketch]
    if len(found) < 2:
        return found[0] if found else None
    whole = Sketch(found[0].counts)
    for sketch in found[1:]:
        whole.merge(sketch)
    return whole
