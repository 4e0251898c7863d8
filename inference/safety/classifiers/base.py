"""What the gate asks of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ClassifierError(Exception):
    """Raised when a classifier cannot be had, or cannot judge; the message says what to do."""


class Classifier(Protocol):
    """Judges texts, each for itself: what else is in a batch changes nothing."""

    categories: tuple[str, ...]
    window: int  # characters that it sees at a time

    def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return of each text how likely each of `categories` is, from 0 to 1."""
