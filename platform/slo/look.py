"""Looking at a window of time: two queries, however much has happened in it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from inference.protocol.minutes import BAD, GOOD, LEFT_OUT, OUTPUT
from inference.protocol.outcomes import PRIORITY_HEAD_START_S
from inference.protocol.sketches import Sketch
from slo.models import Load, Rollup
from slo.objectives import AVAILABILITY, OBJECTIVES, availability, share_bad
from slo.picture import Answers, Picture, Spread, WorkerLoad
from slo.sampling import ACTIVE_STREAMS, KV_USED
from slo.sums import Gauges, Sums, decode_gauges, decode_sums
from slo.windows import Window

# In the order of a request's life; what others there are comes behind.
STAGES = (
    "proxy", "auth", "validation", "tokenizing", "admission", "enqueue", "queue", "batch_wait", "prefill", "decode",
    "safety", "write",
)  # fmt: skip

Kind = Literal["ttft", "tpot", "tbt"]
PerStep = Sequence[Sums]


def look(window: Window, *, model: str = "", organization: str = "", now: float | None = None) -> Picture:
    """Return what happened in a window up to `now` (s since the epoch), of one model or all, one organisation or all.

    `organization` is an id. What belongs to no organisation (workers, queues, gateways) is there whichever one is
    looked at.
    """
    starts = window.starts(time.time() if now is None else now)
    per_step, whole = _counted(window, starts, model, organization)
    workers, queued, active_streams = _load(window, starts, model)
    return Picture(
        starts=starts,
        step_s=window.step_s,
        objectives=[row.judge(whole) for row in OBJECTIVES],
        ttft=_spread("ttft", per_step, whole),
        tpot=_spread("tpot", per_step, whole),
        tbt=_spread("tbt", per_step, whole),
        answers=_answers(per_step, whole),
        outcomes=_by_part([step.outcomes for step in per_step], whole.outcomes),
        triggers=_by_part([step.triggers for step in per_step], whole.triggers),
        output_tokens=[step.tokens.get(OUTPUT, 0) for step in per_step],
        stages=_stages(per_step, whole),
        workers=workers,
        queued=queued,
        active_streams=active_streams,
    )


def _counted(window: Window, starts: range, model: str, organization: str) -> tuple[PerStep, Sums]:
    """Return what was counted in each step, and in all of them together."""
    rows = Rollup.objects.filter(
        step_s=window.step_s, model=model, organization=organization, start__gte=starts.start, start__lt=starts.stop
    )
    found = {start: decode_sums(sums) for start, sums in rows.values_list("start", "sums")}
    whole = Sums()
    for sums in found.values():
        whole.merge(sums)
    nothing = Sums()
    return [found.get(start, nothing) for start in starts], whole


def _spread(kind: Kind, per_step: PerStep, whole: Sums) -> Spread:
    steps = [Sketch(counts) if (counts := getattr(step, kind)) else None for step in per_step]
    return Spread(whole=Sketch(getattr(whole, kind)), steps=steps)


def _answers(per_step: PerStep, whole: Sums) -> Answers:
    by_part = _by_part([step.answers for step in per_step], whole.answers)
    nothing = [0] * len(per_step)
    bad = share_bad(whole)
    burn_rate = None if bad is None else bad / (1 - AVAILABILITY)
    return Answers(
        good=by_part.pop(GOOD, nothing),
        left_out=by_part.pop(LEFT_OUT, nothing),
        bad={part.removeprefix(BAD): counts for part, counts in by_part.items()},
        availability=availability(whole),
        error_budget_left=None if burn_rate is None else 1 - burn_rate,
        burn_rate=burn_rate,
    )


def _by_part(per_step: Sequence[Mapping[str, int]], whole: Mapping[str, int]) -> dict[str, list[int]]:
    """Return a series for each part, the largest first."""
    parts = sorted(whole, key=lambda part: (-whole[part], part))
    return {part: [step.get(part, 0) for step in per_step] for part in parts}


def _stages(per_step: PerStep, whole: Sums) -> dict[str, list[float | None]]:
    """Return the mean time that a request spent in each stage, in ms, among those that came through it."""
    order = {name: place for place, name in enumerate(STAGES)}
    names = sorted(whole.stages, key=lambda name: (order.get(name, len(order)), name))
    return {
        name: [
            step.stages_us.get(name, 0) / 1000 / step.stages[name] if name in step.stages else None
            for step in per_step
        ]
        for name in names
    }  # fmt: skip


def _load(
    window: Window, starts: range, model: str
) -> tuple[list[WorkerLoad], dict[str, list[float | None]], list[float | None]]:
    """Return what workers did, and how long the queue and how many the open streams were."""
    rows = Load.objects.filter(step_s=window.step_s, start__gte=starts.start, start__lt=starts.stop)
    workers: defaultdict[tuple[str, str], dict[int, tuple[str, Gauges]]] = defaultdict(dict)
    queued: dict[str, list[float | None]] = {name: [None] * len(starts) for name in PRIORITY_HEAD_START_S}
    active_streams: list[float | None] = [None] * len(starts)
    found = rows.order_by("start").values_list("start", "kind", "name", "model", "device", "gauges")
    for start, kind, name, of_model, device, encoded in found:
        step = (start - starts.start) // window.step_s
        gauges = decode_gauges(encoded)
        if kind == Load.GATEWAYS:
            active_streams[step] = gauges[ACTIVE_STREAMS].mean
        elif model in ("", of_model):
            if kind == Load.WORKER:
                workers[name, of_model][step] = device, gauges
            else:
                _add(queued, step, gauges)
    return [_worker(*who, steps, len(starts)) for who, steps in sorted(workers.items())], queued, active_streams


def _add(queued: Mapping[str, list[float | None]], step: int, gauges: Gauges) -> None:
    for priority, gauge in gauges.items():
        if priority in queued and gauge.mean is not None:
            queued[priority][step] = (queued[priority][step] or 0.0) + gauge.mean


def _worker(name: str, model: str, steps: Mapping[int, tuple[str, Gauges]], num_steps: int) -> WorkerLoad:
    def series(gauge: str) -> list[float | None]:
        return [steps[i][1][gauge].mean if i in steps and gauge in steps[i][1] else None for i in range(num_steps)]

    return WorkerLoad(
        worker=name,
        model=model,
        device=steps[max(steps)][0],
        tokens_per_s=series("tokens_per_s"),
        memory_used=series("memory_used"),
        memory_total=_largest(gauges for _, gauges in steps.values()),
        kv_used=series(KV_USED),
        running=series("running"),
    )


def _largest(all_gauges: Iterable[Gauges]) -> float:
    return max((gauges["memory_total"].most for gauges in all_gauges if "memory_total" in gauges), default=0.0)
