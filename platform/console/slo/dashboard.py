"""The charts of the SLO dashboard, from a picture of a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.slo.charts import UNKNOWN, Chart, Mark, Series
from console.slo.devices import devices_of
from console.slo.histograms import FACTOR, bins_of
from console.slo.series import MOST, QUANTILES, Values, highest, quantiles, shares, stacked, together
from console.slo.steps import Steps
from console.slo.units import Unit, precise, text
from slo.objectives import AVAILABILITY
from slo.picture import Picture, Spread, WorkerLoad

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that stands for itself."""

    name: str
    value: str
    about: str


@dataclass(frozen=True, slots=True)
class Section:
    """Charts that belong together, and the figures above them."""

    id: str
    title: str
    charts: Sequence[Chart]
    figures: Sequence[Figure] = ()


class Dashboard:
    """One picture's sections."""

    def __init__(self, picture: Picture) -> None:
        self._picture, self._steps = picture, Steps.of(picture)

    def sections(self) -> list[Section]:
        """Return all of them, in the order of the page."""
        return [
            Section("latency", "What clients wait for", list(self._latency())),
            Section("answers", "What requests come to", list(self._answers()), self._figures()),
            Section("load", "Load", list(self._load())),
        ]

    def _latency(self) -> Iterator[Chart]:
        picture = self._picture
        yield from self._spread("TTFT", "From a request to its first token", picture.ttft)
        yield from self._spread("TPOT", "Time per output token after the first", picture.tpot)
        yield from self._spread("TBT", "Between two writes of tokens", picture.tbt)

    def _spread(self, name: str, about: str, spread: Spread) -> Iterator[Chart]:
        targets = [
            Mark(f"target {objective.name.removeprefix(name).strip()}", objective.target)
            for objective in self._picture.objectives
            if objective.name.startswith(name)
        ]
        bins = bins_of(spread.whole)
        found = [
            Mark(label, seconds * 1000, is_target=False)
            for label, seconds in zip(QUANTILES, spread.whole.quantiles(QUANTILES.values()), strict=True)
            if seconds is not None
        ]
        yield Chart(
            id=f"{name.lower()}-histogram", title=f"{name}: distribution", about=about, kind="histogram", unit="count",
            x=bins.starts, step=FACTOR, series=[Series("measured", bins.counts)], marks=[*found, *targets],
        )  # fmt: skip
        series = quantiles(self._steps.merged(spread.steps))
        yield self._chart(f"{name.lower()}-time", f"{name} over time", about, "ms", series, marks=targets)

    def _answers(self) -> Iterator[Chart]:
        picture = self._picture
        bad = {kind: self._steps.sums(counts) for kind, counts in picture.answers.bad.items()}
        good = self._steps.sums(picture.answers.good)
        counted = [sum(row) for row in zip(good, *bad.values(), strict=True)]
        errors = stacked({kind: shares(counts, counted) for kind, counts in bad.items()})
        about = "Of the answers that count"
        instead = "Each answer that counts was good." if any(counted) else UNKNOWN
        yield self._chart("errors", "Error rate by type", about, "share", errors, kind="stack", marks=self._allowed,
                          instead=instead)  # fmt: skip
        wrong = [of_all - right for of_all, right in zip(counted, good, strict=True)]
        burn = [None if share is None else share / (1 - AVAILABILITY) for share in shares(wrong, counted)]
        marks = [Mark("the whole budget", 1)]
        about = "How fast the error budget goes: 1x spends it exactly"
        yield self._chart("burn", "Burn rate", about, "times", [Series("burn rate", burn)], marks=marks)
        yield self._counts("outcomes", "Outcomes", "How messages ended", picture.outcomes)
        yield self._counts("triggers", "Safety triggers", "What safety checks found", picture.triggers)

    def _figures(self) -> list[Figure]:
        answers = self._picture.answers
        return [
            Figure("Availability", precise(answers.availability), "good answers of those that count"),
            Figure("Error budget left", text(answers.error_budget_left, "share"), "of what this window may spend"),
            Figure("Burn rate", text(answers.burn_rate, "times"), "1x spends the budget exactly"),
            Figure("Good", f"{sum(answers.good):,}", "answers that came to their end"),
            Figure("Bad", f"{sum(map(sum, answers.bad.values())):,}", "errors, timeouts, refusals by overload"),
            Figure("Left out", f"{sum(answers.left_out):,}", "mistakes of clients, their limits, their leaving"),
        ]

    @property
    def _allowed(self) -> list[Mark]:
        return [Mark("target", o.target) for o in self._picture.objectives if o.name == "Errors"]

    def _load(self) -> Iterator[Chart]:
        picture, steps = self._picture, self._steps
        devices = devices_of(picture.workers)
        active = steps.means(picture.active_streams)
        rates = {name: steps.means(load.tokens_per_s) for name, load in devices.items()}
        settled = [
            None if streams is None and not count else count / steps.step_s
            for count, streams in zip(steps.sums(picture.output_tokens), active, strict=True)
        ]
        series = [Series("messages that ended", settled), *together(rates), *highest(rates, MOST - 2)]
        about = _told("By each device, and in all", MOST - 2, rates)
        yield self._chart("tokens", "Tokens per second", about, "per_s", series)
        yield self._chart("active", "Active streams", "Open at the gateways", "count", [Series("streams", active)])
        queued = stacked({name: steps.means(depth) for name, depth in picture.queued.items()})
        is_known = any(value is not None for depth in picture.queued.values() for value in depth)
        instead = "Nothing waited." if is_known else UNKNOWN
        yield self._chart("queued", "Queue depth", "By priority", "count", queued, kind="stack", instead=instead)
        known = {name: load for name, load in devices.items() if load.memory_total}  # an engine may have no memory
        memory = highest({name: _gib(steps.means(load.memory_used)) for name, load in known.items()})
        yield self._chart("memory", "Device memory", _told(_sizes(known), MOST, known), "gib", memory)
        cache = highest({name: steps.means(load.kv_used) for name, load in devices.items()})
        yield self._chart("kv", "KV cache", _told("In use, of each device's", MOST, devices), "share", cache)

    def _counts(self, name: str, title: str, about: str, counts: Mapping[str, Sequence[int]]) -> Chart:
        series = stacked({label: self._steps.sums(values) for label, values in counts.items()})
        return self._chart(name, title, f"{about}, {self._per_step}", "count", series, kind="stack")

    @property
    def _per_step(self) -> str:
        minutes = self._steps.step_s // 60
        if minutes < 60:
            return f"per {minutes} minutes" if minutes > 1 else "per minute"
        return f"per {minutes // 60} hours" if minutes > 60 else "per hour"

    def _chart(self, name: str, title: str, about: str, unit: Unit, series: Sequence[Series], **more: Any) -> Chart:
        steps = self._steps
        return Chart(
            id=name, title=title, about=about, unit=unit, x=steps.starts, step=steps.step_s, series=series, **more
        )


def _told(about: str, most: int, devices: Mapping[str, object]) -> str:
    """Add how many devices are not drawn."""
    return f"{about}; the {most} highest of {len(devices)}" if len(devices) > most else about


def _gib(sizes: Values) -> Values:
    return [None if size is None else size / GIB for size in sizes]


def _sizes(devices: Mapping[str, WorkerLoad]) -> str:
    """Return what there is to be used, where it is not too much to be told."""
    sizes = sorted({round(load.memory_total / GIB, 1) for load in devices.values()})
    if not sizes:
        return "In use by each device"
    return f"In use, of {sizes[0]:g} GiB" if len(sizes) == 1 else f"In use, of {sizes[0]:g} to {sizes[-1]:g} GiB"
