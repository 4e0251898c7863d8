"""Pictures of a platform to look at, without one."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

from inference.protocol.sketches import Sketch
from slo.picture import Answers, Objective, Picture, Spread, WorkerLoad

NOW = 1_767_261_600  # 2026-01-01 10:00 UTC
GIB = 2**30


def a_sketch(*milliseconds: float) -> Sketch:
    sketch = Sketch()
    for each in milliseconds:
        sketch.add(each / 1000)
    return sketch


def a_spread(steps: list[Sketch | None]) -> Spread:
    whole = Sketch()
    for sketch in steps:
        if sketch:
            whole.merge(sketch)
    return Spread(whole=whole, steps=steps)


def an_empty_picture(steps: int = 60, step_s: int = 60) -> Picture:
    nothing = [0] * steps
    unknown: list[float | None] = [None] * steps
    starts = range(NOW - steps * step_s, NOW, step_s)
    return Picture(
        starts=starts, step_s=step_s, objectives=objectives({}), ttft=a_spread([None] * steps),
        tpot=a_spread([None] * steps), tbt=a_spread([None] * steps),
        answers=Answers(good=nothing, bad={}, left_out=nothing, availability=None, error_budget_left=None,
                        burn_rate=None),
        outcomes={}, triggers={}, output_tokens=nothing, stages={}, workers=[], queued={}, active_streams=unknown,
    )  # fmt: skip


@cache
def a_picture(steps: int = 60, step_s: int = 60, *, gap: range = range(20, 26), workers: int = 2) -> Picture:
    """A busy platform, of which nothing is known in a gap, with a bad quarter in the middle."""
    chance = random.Random(7)

    def over(function: Any) -> list[Any]:
        return [None if step in gap else function(step) for step in range(steps)]

    def counts(mean: float) -> list[int]:
        return [0 if step in gap else round(mean * (1 + 0.4 * math.sin(step / 9)) * chance.uniform(0.8, 1.2))
                for step in range(steps)]  # fmt: skip

    def bad(step: int) -> bool:
        return steps * 0.55 < step < steps * 0.65

    def spread(middle: float, width: float) -> Spread:
        def sketch(step: int) -> Sketch:
            slow = 4 if bad(step) else 1
            return a_sketch(*(middle * slow * chance.lognormvariate(0, width) for _ in range(40)))

        return a_spread(over(sketch))

    good = counts(step_s * 4)
    failed = {"overloaded_error": [40 if bad(step) else 0 for step in range(steps)],
              "timeout_error": [3 if bad(step) else int(step % 17 == 0) for step in range(steps)],
              "api_error": [int(step % 29 == 3) for step in range(steps)]}  # fmt: skip
    num_bad, num_all = sum(map(sum, failed.values())), sum(good) + sum(map(sum, failed.values()))
    availability = 1 - num_bad / num_all
    values = {"TTFT p50": 54.0, "TTFT p99": 472.0, "TPOT p50": 17.1, "TBT p99": 131.0, "Availability": availability,
              "Errors": 1 - availability}  # fmt: skip
    return Picture(
        starts=range(NOW - steps * step_s, NOW, step_s), step_s=step_s, objectives=objectives(values),
        ttft=spread(50, 0.6), tpot=spread(17, 0.1), tbt=spread(18, 0.5),
        answers=Answers(good=good, bad=failed, left_out=counts(3), availability=availability,
                        error_budget_left=1 - (1 - availability) / 0.001, burn_rate=(1 - availability) / 0.001),
        outcomes={"end_turn": counts(step_s * 3), "max_tokens": counts(step_s), "stop_sequence": counts(20),
                  "tool_use": counts(9), "client_gone": counts(6), "cancelled": counts(3), "safety": counts(2),
                  "timeout": failed["timeout_error"], "abandoned": counts(1), "oom": [0] * steps},
        triggers={"secret (enforce)": counts(1), "personal data (flag)": counts(6), "toxicity (flag)": counts(2)},
        output_tokens=counts(step_s * 900),
        stages={name: over(lambda step, ms=ms: ms * chance.uniform(0.8, 1.2) * (3 if bad(step) else 1))
                for name, ms in (("auth", 0.3), ("validation", 0.4), ("tokenizing", 1.1), ("admission", 0.9),
                                 ("enqueue", 0.8), ("queue", 9.0), ("prefill", 31.0), ("safety", 14.0),
                                 ("decode", 2100.0))},
        workers=[a_worker(number, over, chance) for number in range(workers)],
        queued={"priority": over(lambda _: chance.randrange(2)), "standard": over(lambda s: 40 if bad(s) else 2),
                "batch": over(lambda _: 12 + chance.randrange(9))},
        active_streams=over(lambda step: 60 + 20 * math.sin(step / 9)),
    )  # fmt: skip


def a_worker(number: int, over: Any, chance: random.Random) -> WorkerLoad:
    return WorkerLoad(
        worker=f"host-{number}-7", model="m", device="cuda:0",
        tokens_per_s=over(lambda _: 430 + chance.uniform(-40, 40)),
        memory_used=over(lambda _: (61 + number + chance.uniform(0, 2)) * GIB), memory_total=80 * GIB,
        kv_used=over(lambda step: 0.4 + 0.3 * math.sin(step / 9 + number)), running=over(lambda _: 30.0),
    )  # fmt: skip


def objectives(values: dict[str, float]) -> list[Objective]:
    """The table, with what was measured."""

    def row(name: str, target: float, unit: Any = "ms") -> Objective:
        value = values.get(name)
        met = value is not None and (value >= target if name == "Availability" else value < target)
        close = value is not None and met and unit == "ms" and value > 0.9 * target
        standing: Any = "unknown" if value is None else "close" if close else "met" if met else "missed"
        return Objective(name=name, unit=unit, target=target, value=value, standing=standing)

    return [row("TTFT p50", 100), row("TTFT p99", 500), row("TPOT p50", 20), row("TBT p99", 100),
            row("Availability", 0.999, "share"), row("Errors", 0.001, "share")]  # fmt: skip
