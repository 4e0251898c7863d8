"""The figures of a load test, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from config.loadtest.arrivals import Closed, Load, Poisson
from config.loadtest.plan import Plan
from config.loadtest.results import Percentiles, Results


def as_json(results: Results, plan: Plan) -> str:
    """Return one JSON object: what was done, and what came of it. The key is no part of it."""
    load = {"kind": type(plan.load).__name__.lower()} | asdict(plan.load)
    body: dict[str, Any] = {"url": plan.url, "model": plan.model, "load": load, "max_tokens": plan.max_tokens}
    body |= {"seed": plan.seed} | asdict(results)
    body["targets"] = [asdict(target) | {"met": target.met} for target in results.targets]
    return json.dumps(body | {"met": results.met})


def as_table(results: Results, plan: Plan) -> str:
    """Return what a person reads in a terminal."""
    return "\n".join([*_lines(results, plan), ""])


def _lines(results: Results, plan: Plan) -> Iterator[str]:
    yield f"{plan.url} · {_told(plan.load)} · up to {plan.max_tokens} tokens · {results.wall_s:.1f} s"
    counts = [f"{results.done} done", f"{results.failed} failed"]
    counts += [f"{results.left} left early"] if results.left else []
    counts += [f"{results.slow} read slowly"] if results.slow else []
    yield f"{results.requests} requests: {', '.join(counts)}"
    yield ""
    yield f"{'ms':<8}{'p50':>10}{'p95':>10}{'p99':>10}"
    rows = {"TTFT": results.ttft_ms, "TPOT": results.tpot_ms, "TBT": results.tbt_ms, "total": results.total_ms}
    for name, values in rows.items():
        yield f"{name:<8}{_cells(values)}"
    yield ""
    yield (
        f"{results.requests_per_s:g} requests/s, {results.tokens_per_s:g} tokens/s; "
        f"goodput {results.goodput_per_s:g} requests/s ({results.good} of {results.requests} within all limits)"
    )
    yield ""
    for target in results.targets:
        measured = "-" if target.measured is None else f"{target.measured:g} {target.unit}"
        verdict = "met" if target.met else "MISSED"
        yield f"{target.name:<10}{f'< {target.limit:g} {target.unit}':<12}{measured:>12}  {verdict}"
    yield from _ramp_lines(results)
    if results.errors:
        yield ""
        yield "errors"
        for name, count in results.errors.items():
            yield f"  {count:>6}  {name}"


def _ramp_lines(results: Results) -> Iterator[str]:
    if not results.steps:
        return
    yield ""
    yield f"{'requests/s':<12}{'requests':>10}{'good':>8}{'failed':>8}{'TTFT p50':>10}{'p95':>10}{'p99':>10}"
    for step in results.steps:
        yield f"{step.rate:<12g}{step.requests:>10}{step.good:>8}{step.failed:>8}{_cells(step.ttft_ms)}"


def _cells(values: Percentiles | None) -> str:
    if values is None:
        return f"{'-':>10}" * 3
    return f"{values.p50:>10.1f}{values.p95:>10.1f}{values.p99:>10.1f}"


def _told(load: Load) -> str:
    if isinstance(load, Closed):
        return f"{load.concurrency} clients in a closed loop"
    if isinstance(load, Poisson):
        return f"{load.rate:g} requests/s, Poisson"
    return f"{load.first:g} to {load.last:g} requests/s, Poisson"
