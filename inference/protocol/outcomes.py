"""Why a message ended: the closed sets that clients, records and metrics share."""

from __future__ import annotations

from typing import Literal, get_args

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "safety", "cancelled", "server_shutdown",
    "refusal",  # Anthropic's word for `safety`, where the settings ask for it
]  # fmt: skip
Outcome = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "safety", "cancelled",
    "client_gone", "abandoned", "timeout", "worker_lost", "oom", "error",
]  # fmt: skip
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

# What a client may ask the worker to end a message for; the log shows `cancelled` for each.
CancelReason = Literal["cancelled", "client_gone", "abandoned"]
CANCEL_REASONS: tuple[CancelReason, ...] = get_args(CancelReason)

Priority = Literal["priority", "standard", "batch"]
# Ageing: a class is so many seconds ahead of or behind a standard request that came at the same moment.
PRIORITY_HEAD_START_S: dict[Priority, float] = {"priority": 10.0, "standard": 0.0, "batch": -600.0}
# How full the queue may be for a class to get in: the last places are for those who are in a hurry.
QUEUE_SHARE: dict[Priority, float] = {"priority": 1.0, "standard": 0.9, "batch": 0.5}
