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
    lines: defaultdict[str, list[WorkerLoad]] = defaultdict(list)
    for load in sorted(workers, key=lambda load: (_steps(load)[0], load.worker)):
        _continue(lines[f"{_PROCESS.sub('', load.worker)} {load.device}".strip()], load)
    return {
        name if number == 1 else f"{name} #{number}": line
        for name, found in lines.items()
        for number, line in enumerate(found, 1)
    }


def _continue(lines: list[WorkerLoad], load: WorkerLoad) -> None:
    """Add a worker to the first line that ended before it came, or in that step; to a new one where there is none."""
    begins, _ = _steps(load)
    for place, line in enumerate(lines):
        if _steps(line)[1] <= begins:
            lines[place] = replace(
                load,
                tokens_per_s=_joined(line.tokens_per_s, load.tokens_per_s),
                memory_used=_joined(line.memory_used, load.memory_used),
                memory_total=max(line.memory_total, load.memory_total),
                kv_used=_joined(line.kv_used, load.kv_used),
                running=_joined(line.running, load.running),
            )
            return
    lines.append(load)


def _steps(load: WorkerLoad) -> tuple[int, int]:
    """Return the first and the last step in which a worker was seen."""
    rows = zip(load.tokens_per_s, load.memory_used, load.kv_used, load.running, strict=True)
    seen = [step for step, row in enumerate(rows) if any(value is not None for value in row)]
    return (seen[0], seen[-1]) if seen else (0, -1)


def _joined(earlier: Values, later: Values) -> Values:
    return [_mean([value for value in pair if value is not None]) for pair in zip(earlier, later, strict=True)]


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None
