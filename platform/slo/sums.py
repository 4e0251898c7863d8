"""What rows hold, decoded."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from inference.protocol.sketches import merge_counts


class Sums(msgspec.Struct, omit_defaults=True):
    """What was counted: sketches by bucket, and sums by part, named as in `inference.protocol.minutes`."""

    ttft: dict[int, int] = {}
    tpot: dict[int, int] = {}
    tbt: dict[int, int] = {}
    answers: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    triggers: dict[str, int] = {}
    tokens: dict[str, int] = {}
    stages: dict[str, int] = {}
    stages_us: dict[str, int] = {}

    def merge(self, other: Sums) -> None:
        """Add all that other ones have."""
        for name in self.__struct_fields__:
            merge_counts(getattr(self, name), getattr(other, name))

    def raise_to(self, other: Sums) -> None:
        """Let each count be at least what another one has."""
        for name in self.__struct_fields__:
            counts = getattr(self, name)
            for part, count in getattr(other, name).items():
                counts[part] = max(counts.get(part, 0), count)


class Gauge(msgspec.Struct, array_like=True):
    """What was seen of a value that goes up and down, several times."""

    total: float = 0.0
    count: int = 0
    most: float = 0.0

    def see(self, value: float) -> None:
        """Add a sample."""
        self.most = max(self.most, value) if self.count else value
        self.total += value
        self.count += 1

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


Gauges = dict[str, Gauge]

decode_sums = msgspec.json.Decoder(Sums).decode
decode_gauges = msgspec.json.Decoder(Gauges).decode


def encode(value: Sums | Mapping[str, Gauge]) -> str:
    """Return what is stored of it."""
    return msgspec.json.encode(value).decode()
