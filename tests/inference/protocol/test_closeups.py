"""What heartbeats tell of single messages."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from inference.engines.base import EngineStats
from inference.protocol.closeups import MOST, Blocked, blocked_field, close_ups, held_field


def heartbeat(*parts: dict[str, Any]) -> dict[str, Any]:
    """A heartbeat after its way through Redis."""
    told: dict[str, Any] = {"active_streams": 3}
    for part in parts:
        told |= part
    return dict(json.loads(json.dumps(told)))


def test_it_works() -> None:
    gateway = heartbeat(blocked_field([("msg_1", 7, 2.04), ("msg_2", 9, 0.2)]))
    worker = heartbeat(held_field([("msg_3", 12), ("msg_4", 0)]))
    seen = close_ups([gateway], [worker])
    assert seen.blocked == {"msg_1": Blocked(7, 2.0)}
    assert seen.held == {"msg_3": 12}


def test_where_nothing_is_special_nothing_is_told() -> None:
    assert blocked_field([("msg_1", 7, 0.9)]) == {}
    assert held_field([("msg_1", 0)]) == {}
    assert close_ups([heartbeat()], [heartbeat()]).blocked == {}


def test_of_two_readers_the_slower_counts() -> None:
    first, second = (heartbeat(blocked_field([("msg_1", cursor, 3.0)])) for cursor in (9, 4))
    assert close_ups([first, second], []).blocked["msg_1"].cursor == 4


def test_of_many_the_worst_are_told() -> None:
    told = blocked_field((f"msg_{i}", 1, float(i)) for i in range(1, 2 * MOST))["blocked"]
    assert len(told) == MOST
    assert told[0] == [f"msg_{2 * MOST - 1}", 1, 2 * MOST - 1]
    assert len(held_field((f"msg_{i}", i) for i in range(2 * MOST))["held"]) == MOST


def test_how_far_prompts_are_is_told_by_engines() -> None:
    load = asdict(EngineStats(prefills=(("msg_1", 30, 120), ("msg_2", 0, 0))))
    assert close_ups([], [heartbeat(load)]).prefilled == {"msg_1": 0.25}
