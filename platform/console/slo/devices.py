"""Devices over time: of workers that followed one another on a host's device, each continues the line of the last."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from console.slo.series import Values
from slo.picture import WorkerLoad

_PROCESS = re.compile(r"-\d+$")  # of a worker's id: the rest is its host


def devices_of(workers: Iterable[WorkerLoad]) -> dict[str, WorkerLoad]:
    """Return what was seen of each device, by its name; workers that ran there at once have a line each."""
    lines: defaultdict[str, list[list[WorkerLoad]]] = defaultdict(list)
    for load in sorted(workers, key=lambda load: (_steps(load)[0], load.worker)):
        _place(lines[f"{_PROCESS.sub('', load.worker)} {load.device}".strip()], load)
    return {
        name if number == 1 else f"{name} #{number}": _together(line)
        for name, found in lines.items()
        for number, line in enumerate(found, 1)
    }


def _place(lines: list[list[WorkerLoad]], load: WorkerLoad) -> None:
    """Let a worker follow the first that came before it and was gone by then, or in that step; or begin a new line.

    Two that came in the same step may have run at once.
    """
    begins, _ = _steps(load)
    for line in lines:
        began, ended = _steps(line[-1])
        if began < begins and ended <= begins:
            line.append(load)
            return
    lines.append([load])


def _steps(load: WorkerLoad) -> tuple[int, int]:
    """Return the first and the last step in which a worker was seen."""
    rows = zip(load.tokens_per_s, load.memory_used, load.kv_used, load.running, strict=True)
    seen = [step for step, row in enumerate(rows) if any(value is not None for value in row)]
    return (seen[0], seen[-1]) if seen else (-1, -1)


def _together(line: Sequence[WorkerLoad]) -> WorkerLoad:
    """Return workers that followed one another as the last of them."""
    return replace(
        line[-1],
        tokens_per_s=_joined([load.tokens_per_s for load in line]),
        memory_used=_joined([load.memory_used for load in line]),
        memory_total=max(load.memory_total for load in line),
        kv_used=_joined([load.kv_used for load in line]),
        running=_joined([load.running for load in line]),
    )


def _joined(loads: Iterable[Values]) -> Values:
    return [_mean([value for value in step if value is not None]) for step in zip(*loads, strict=True)]


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None
