"""What the platform did over a window of time, as the dashboard, the command and anyone else reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from inference.protocol.sketches import Sketch

Standing = Literal["met", "close", "missed", "unknown"]  # green, amber, red, and grey where there is nothing to judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One row of the table of SLOs: `value` is None where nothing was measured. Times in ms, shares from 0 to 1."""

    name: str  # "TTFT p50"
    unit: Literal["ms", "share"]
    target: float
    value: float | None
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A distribution of times, in seconds: over the whole window, and for each step of it; None where it is empty."""

    whole: Sketch
    steps: Sequence[Sketch | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What requests came to, as their clients felt it, by step."""

    good: Sequence[int]
    bad: Mapping[str, Sequence[int]]  # error type -> counts
    left_out: Sequence[int]  # of no account: other 4xx, rate limits, clients that went, cancelled ones

    availability: float | None  # over the window
    error_budget_left: float | None  # 1 is untouched, below 0 it is overspent
    burn_rate: float | None  # 1 spends the budget exactly by the window's end


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoad:
    """One worker's device by step; None where it was not seen. Memory in bytes."""

    worker: str
    model: str
    device: str
    tokens_per_s: Sequence[float | None]
    memory_used: Sequence[float | None]
    memory_total: float
    kv_used: Sequence[float | None]  # a share of the cache, from 0 to 1
    running: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All of it. `starts` are the steps' beginnings in seconds since the epoch, `step_s` apart, empty ones too."""

    starts: Sequence[int]
    step_s: int
    objectives: Sequence[Objective]
    ttft: Spread
    tpot: Spread
    tbt: Spread
    answers: Answers
    outcomes: Mapping[str, Sequence[int]]  # how messages ended -> counts by step
    triggers: Mapping[str, Sequence[int]]  # "category (action)" -> counts by step
    output_tokens: Sequence[int]
    stages: Mapping[
        str, Sequence[float | None]
    ]  # stage -> mean ms of a request by step, in the order of a request's life
    workers: Sequence[WorkerLoad]
    queued: Mapping[str, Sequence[float | None]]  # priority -> mean depth by step
    active_streams: Sequence[float | None]
