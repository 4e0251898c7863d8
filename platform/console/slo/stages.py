"""Where the time of requests goes: by stage, over time and as shares of it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.slo.charts import Chart, Series
from console.slo.series import Values
from console.slo.steps import Steps, weighted_mean
from slo.picture import Picture

ABOUT = {  # stage -> who spends it, on what
    "proxy": ("proxy", "before it came to us"),
    "auth": ("gateway", "finding the key"),
    "validation": ("gateway", "checking the body"),
    "tokenizing": ("gateway", "turning the prompt into tokens"),
    "admission": ("gateway", "rates, limits and budgets"),
    "enqueue": ("gateway", "opening the log and entering the queue"),
    "queue": ("queue", "waiting for a worker to take it"),
    "batch_wait": ("worker", "waiting for a place in the batch"),
    "prefill": ("worker", "from there to the first token"),
    "safety": ("worker", "safety checks, in all"),
    "decode": ("worker", "all tokens after the first, without the checks"),
    "write": ("gateway", "writing to the client"),
}
LATER = frozenset({"safety", "decode", "write"})  # what goes on after the first token


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A stage's part in the mean request, in percent of all of it, and of what comes before the first token."""

    stage: str
    by: str
    about: str
    mean_ms: float
    percent: float
    percent_before: float | None  # of what goes on later None


def stage_charts(picture: Picture) -> list[Chart]:
    """Return the mean request over time: up to its first token, and whole."""
    steps, stages, settled = Steps.of(picture), _apart(picture), _settled(picture)
    series = [Series(name, steps.means(values, settled)) for name, values in stages.items() if any(values)]
    before = [each for each in series if each.label not in LATER]
    about = "Mean time of a request in each stage"
    return [
        Chart(id=name, title=title, about=about, kind="stack", unit="ms", x=steps.starts, step=steps.step_s, series=of)
        for name, title, of in (
            ("before", "Until the first token", before),
            ("whole", "The whole request", series),
        )
    ]


def shares_of(picture: Picture) -> list[Share]:
    """Return each stage's part over the whole window, in the order of a request's life."""
    settled = _settled(picture)
    means = {name: weighted_mean(values, settled) or 0.0 for name, values in _apart(picture).items()}
    whole, before = sum(means.values()), sum(mean for name, mean in means.items() if name not in LATER)
    if not whole:
        return []
    return [
        Share(
            stage=name,
            by=ABOUT.get(name, ("", ""))[0],
            about=ABOUT.get(name, ("", ""))[1],
            mean_ms=mean,
            percent=100 * mean / whole,
            percent_before=100 * mean / before if before and name not in LATER else None,
        )
        for name, mean in means.items()
    ]


def _settled(picture: Picture) -> Sequence[float]:
    """How many messages ended in each step: the weights of its means."""
    counts = [sum(row) for row in zip(*picture.outcomes.values(), strict=True)]
    return counts or [0.0] * len(picture.starts)


def _apart(picture: Picture) -> dict[str, Values]:
    """Return stages that add up: the checks run while tokens are made, so that their time is taken out of these."""
    stages = dict(picture.stages)
    if "safety" in stages and "decode" in stages:
        pairs = zip(stages["decode"], stages["safety"], strict=True)
        stages["decode"] = [None if made is None else max(0.0, made - (checked or 0.0)) for made, checked in pairs]
    return stages
