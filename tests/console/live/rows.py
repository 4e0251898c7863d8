"""Rows to make tables of."""

from __future__ import annotations

from typing import Any

from console.live.rows import Row


def a_row(message_id: str = "msg_1", **changes: Any) -> Row:
    row = Row(
        id=message_id, key="alice", organization="alpha", model="m", worker="w-1", gateway="g-1", state="decoding",
        came=1000, ttft=100, unsent=0, held=0, attempt=1, turn=-1, prefilled=-1, tokens=10,
    )  # fmt: skip
    return row._replace(**changes)
