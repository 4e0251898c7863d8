"""The row of traffic lights: each objective, whether it is met, and by how much."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from console.slo.units import precise, target, text
from slo.picture import Objective, Standing

_SIGNS: dict[Standing, tuple[str, str]] = {
    "met": ("✓", "met"),
    "close": ("!", "close"),
    "missed": ("✗", "missed"),
    "unknown": ("-", "no data"),
}


@dataclass(frozen=True, slots=True)
class Light:
    """An objective as it is shown: by a sign and a word, too, for whoever sees no colours."""

    name: str
    standing: Standing
    sign: str
    word: str
    value: str
    target: str


def lights_of(objectives: Iterable[Objective]) -> list[Light]:
    """Return the row."""
    return [_light(objective) for objective in objectives]


def _light(objective: Objective) -> Light:
    sign, word = _SIGNS[objective.standing]
    at_least = objective.unit == "share" and objective.target > 0.5  # availability; all others are to be small
    return Light(
        objective.name,
        objective.standing,
        sign,
        word,
        _value(objective),
        f"{'≥' if at_least else '<'} {target(objective.target, objective.unit)}",
    )


def _value(objective: Objective) -> str:
    return text(objective.value, "ms") if objective.unit == "ms" else precise(objective.value)
