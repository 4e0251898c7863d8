"""`manage.py slo_report`: how what was measured stands to the objectives."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.models import Organization
from console.live.columns import Column, lines_of, width_of
from slo.look import look
from slo.picture import Objective, Picture
from slo.windows import DEFAULT, WINDOWS, Window


class Command(BaseCommand):
    """Compare what was measured in a window with the objectives."""

    help = (
        "Compare latencies, availability and errors of a window up to now with their targets. The exit status is 1 "
        "where a target is missed, 0 where none is, also when nothing was measured."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--window", choices=WINDOWS, default=DEFAULT.name, help=f"how long ({DEFAULT.name})")
        parser.add_argument("--model", default="", metavar="NAME", help="only requests for this model")
        parser.add_argument(
            "--organization", "--org", default="", metavar="NAME", help="only requests of this organisation"
        )
        parser.add_argument("--json", action="store_true", help="a JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        window = WINDOWS[options["window"]]
        organization = _id_of(options["organization"]) if options["organization"] else ""
        picture = look(window, model=options["model"], organization=organization)
        if options["json"]:
            self.stdout.write(json.dumps(_fields(picture, window), indent=2))
        else:
            self._table(picture, window)
        if any(objective.standing == "missed" for objective in picture.objectives):
            sys.exit(1)

    def _table(self, picture: Picture, window: Window) -> None:
        lines, _ = lines_of(_columns(picture.objectives), width_of(terminal=self.stdout.isatty()))
        for line in lines:
            self.stdout.write(line)
        self.stdout.write("")
        self.stdout.write(_account(picture, window))


def _id_of(name: str) -> str:
    found = Organization.objects.filter(name=name).values_list("id", flat=True).first()
    if found is None:
        raise CommandError(f"There is no organisation called {name}.")
    return str(found)


def _columns(objectives: Sequence[Objective]) -> list[Column]:
    return [
        Column("objective", [objective.name for objective in objectives]),
        Column("measured", [_measured(objective) for objective in objectives], right=True),
        Column("target", [_target(objective) for objective in objectives], right=True),
        Column("", [_WORDS[objective.standing] for objective in objectives]),
    ]


_WORDS = {"met": "met", "close": "met, but close", "missed": "MISSED", "unknown": "not measured"}


def _measured(objective: Objective) -> str:
    if objective.value is None:
        return "-"
    return f"{objective.value:,.1f} ms" if objective.unit == "ms" else f"{objective.value * 100:.3f} %"


def _target(objective: Objective) -> str:
    if objective.unit == "ms":
        return f"< {objective.target:g} ms"
    return f"{'>=' if objective.target > 0.5 else '<'} {objective.target * 100:g} %"


def _account(picture: Picture, window: Window) -> str:
    """Say in words what it is that was measured."""
    if all(objective.value is None for objective in picture.objectives):
        return f"Nothing was measured in the last {window.label}."
    answers = picture.answers
    good, bad = sum(answers.good), sum(map(sum, answers.bad.values()))
    said = f"The last {window.label}: {good:,} good answers, {bad:,} bad, {sum(answers.left_out):,} of no account."
    if answers.error_budget_left is not None:
        said += f" {answers.error_budget_left:.0%} of the error budget is left."
    if bad:
        worst = sorted(((sum(counts), kind) for kind, counts in answers.bad.items()), reverse=True)
        said += " Bad: " + ", ".join(f"{kind} {count:,}" for count, kind in worst) + "."
    return said


def _fields(picture: Picture, window: Window) -> dict[str, Any]:
    answers = picture.answers
    return {
        "window": window.name,
        "from": picture.starts[0],
        "to": picture.starts[-1] + picture.step_s,
        "objectives": [asdict(objective) for objective in picture.objectives],
        "good": sum(answers.good),
        "bad": {kind: sum(counts) for kind, counts in answers.bad.items()},
        "left_out": sum(answers.left_out),
        "availability": answers.availability,
        "error_budget_left": answers.error_budget_left,
        "burn_rate": answers.burn_rate,
        "output_tokens": sum(picture.output_tokens),
    }
