"""What passes from the detokeniser to the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of tokens and the text they release together, which never ends inside a character.

    A piece without text carries token ids that wait for the next text, or for the end.
    """

    token_ids: tuple[int, ...]
    text: str
