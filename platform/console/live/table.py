"""The table of open streams as pages follow it: whole once, then what changes, numbered without a gap.

What is published begins with a line `whole 7` or `changes 7`, for whoever passes it on; the rest is an SSE event. A row
has a number of its own, by which the changes name it: most of them are one more token or a few.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from console.live.rows import SHAPE, Row

Kind = Literal["whole", "changes"]


@dataclass(frozen=True, slots=True)
class Message:
    """An event on its way to the pages."""

    kind: Kind
    number: int
    frame: bytes

    def encode(self) -> bytes:
        return f"{self.kind} {self.number}\n".encode() + self.frame


def decode(payload: bytes) -> Message:
    """Read what was published."""
    head, _, frame = payload.partition(b"\n")
    kind, number = head.decode().split(" ")
    return Message("whole" if kind == "whole" else "changes", int(number), frame)


class Table:
    """The rows that were told last."""

    def __init__(self, number: int) -> None:
        """`number` is that of the first message; those of another table before are lower."""
        self._number = number
        self._rows: dict[int, Row] = {}
        self._numbers: dict[str, int] = {}  # by message
        self._last_number = 0
        self._facts: dict[str, Any] = {}

    def update(self, rows: Sequence[Row], *, total: int, queues: Mapping[str, int], at_ms: float) -> Message:
        """Take the rows of now; return what has changed."""
        self._facts = {"at": round(at_ms), "total": total, "queues": queues}
        now = {self._number_of(row.id): row for row in rows}
        gone = [number for number in self._rows if number not in now]
        tokens: list[int] = []  # pairs
        changed: list[list[Any]] = []
        for number, row in now.items():
            before = self._rows.get(number)
            if before == row:
                continue
            if before is not None and before[:-1] == row[:-1]:
                tokens += (number, row.tokens)
            else:
                changed.append([number, *row])
        for number in gone:
            del self._numbers[self._rows[number].id]
        self._rows = now
        self._number += 1
        return self._message("changes", {"rows": changed, "tokens": tokens, "gone": gone})

    def whole(self) -> Message:
        """Return all rows, as of the last update."""
        rows = [[number, *row] for number, row in self._rows.items()]
        return self._message("whole", {"shape": SHAPE, "rows": rows})

    def _number_of(self, message_id: str) -> int:
        number = self._numbers.get(message_id)
        if number is None:
            self._last_number += 1
            number = self._numbers[message_id] = self._last_number
        return number

    def _message(self, kind: Kind, data: dict[str, Any]) -> Message:
        body = json.dumps(self._facts | data, separators=(",", ":"))
        return Message(kind, self._number, f"event: {kind}\ndata: {body}\n\n".encode())
