"""What the scheduler's policy gives whom, on machines that only have costs: no torch, and no waiting.

The best that a burst can get: all of its prompts one after the other, with nobody decoding in between.
"""

from __future__ import annotations

import pytest

from tests.inference.engines.transformers.simulation import (
    GPU,
    OLD_CORES,
    TWO_CORES,
    Machine,
    Simulation,
    Stream,
    in_class,
    percentile,
    streams,
)


def gaps_of(found: list[Stream], start: float = 0.0, end: float = float("inf")) -> list[float]:
    return [gap for stream in found for gap in stream.gaps(start, end)]


def ttft_of(found: list[Stream], share: float) -> float:
    return percentile([stream.ttft for stream in found], share)


@pytest.mark.parametrize(("machine", "num_running"), [(TWO_CORES, 1), (TWO_CORES, 8), (TWO_CORES, 16), (GPU, 30)])
def test_a_long_prompt_does_not_stall_those_that_run(machine: Machine, num_running: int) -> None:
    running, long = streams(num_running, answer=400), streams(1, at=3.0, prompt=4000, answer=2)

    Simulation(machine).run(running, long)

    gaps = gaps_of(running, long[0].at, long[0].heard[0])
    assert len(gaps) > 5 * num_running
    assert percentile(gaps, 0.99) < 0.1


def test_a_long_prompt_gets_on_beside_them() -> None:
    running, long = streams(8, answer=400), streams(1, at=3.0, prompt=4000, answer=2)
    alone = streams(1, prompt=4000, answer=2)

    Simulation(TWO_CORES).run(running, long)
    Simulation(TWO_CORES).run(alone)

    assert long[0].ttft < 2 * alone[0].ttft


@pytest.mark.parametrize("machine", [TWO_CORES, GPU])
def test_a_burst_of_short_prompts_is_soon_begun(machine: Machine) -> None:
    burst = streams(32)
    best = machine.step + 32 * 38 * machine.prefill

    Simulation(machine).run(burst)

    assert ttft_of(burst, 0.95) < 1.5 * best + 0.02
    assert ttft_of(burst, 0.5) < 0.75 * best + 0.02


def test_where_nothing_is_fast_everybody_waits_alike() -> None:
    burst = streams(32)
    best = 32 * 38 * OLD_CORES.prefill

    Simulation(OLD_CORES).run(burst)

    assert ttft_of(burst, 0.95) < 2 * best
    assert percentile(gaps_of(burst), 0.99) < 1.0


def test_a_burst_that_begins_alike_is_computed_once() -> None:
    burst = streams(32, prompt=400, shared=384)

    Simulation(TWO_CORES).run(burst)

    assert sum(stream.num_computed for stream in burst) < 384 + 32 * (16 + 64)
    assert ttft_of(burst, 0.95) < 400 * TWO_CORES.prefill + 32 * 16 * TWO_CORES.prefill + 0.5


def test_short_prompts_pass_a_long_one() -> None:
    running, long = streams(8, answer=400), streams(1, at=3.0, prompt=4000, answer=2)
    short = [stream for number in range(10) for stream in streams(1, at=3.2 + 0.3 * number)]

    Simulation(TWO_CORES).run(running, long, short)

    assert ttft_of(short, 0.95) < 0.5


def test_short_prompts_do_not_pass_a_long_one_for_ever() -> None:
    long = streams(1, prompt=4000, answer=2)
    flood = [stream for number in range(600) for stream in streams(1, at=0.05 * number, answer=1)]

    Simulation(TWO_CORES).run(long, flood)

    assert long[0].ttft < flood[-1].at
    assert long[0].ttft < 30


def test_a_class_that_comes_first_does() -> None:
    crowd = streams(60)
    urgent = in_class(streams(1, at=0.5, prompt=39), priority="priority")

    Simulation(TWO_CORES).run(crowd, urgent)

    assert urgent[0].ttft < ttft_of(crowd, 0.8)


def test_batch_work_takes_what_is_left() -> None:
    batch = in_class(streams(40, prompt=400), priority="batch")
    interactive = streams(8, at=0.2)

    Simulation(TWO_CORES).run(batch, interactive)

    assert ttft_of(interactive, 1.0) < 1.2
    assert max(stream.heard[0] for stream in interactive) < sorted(stream.heard[0] for stream in batch)[5]
