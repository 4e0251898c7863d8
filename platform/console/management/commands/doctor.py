"""`manage.py doctor`: what is not as it should be, and what to do about it."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from console.doctor.examination import examine
from console.doctor.findings import Finding
from console.live.columns import width_of

NAME_WIDTH = 14
HANG = " " * (NAME_WIDTH + 7)
COLOURS = {"ok": 32, "warn": 33, "fail": 31}


class Command(BaseCommand):
    """Check everything."""

    help = (
        "Check packages, settings, folders, database, Redis, model, GPU and the processes that should run. "
        "Exit status 1 where something fails."
    )
    requires_system_checks = []  # they are among what is told

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="a JSON list of name, status, text and advice")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = []
        for finding in examine():
            findings.append(finding)
            if not options["json"]:
                self._tell(finding)
        if options["json"]:
            self.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2))
        if any(finding.status == "fail" for finding in findings):
            sys.exit(1)

    def _tell(self, finding: Finding) -> None:
        words = " ".join(part for part in (finding.text, finding.advice) if part)
        width = width_of(terminal=self.stdout.isatty())
        lines = textwrap.wrap(words, max(width - len(HANG), 30), break_long_words=False) if width else [words]
        status = f"{finding.status:<4}"
        if self.stdout.isatty() and "NO_COLOR" not in os.environ:
            status = f"\x1b[{COLOURS[finding.status]}m{status}\x1b[0m"
        self.stdout.write(f"{status}  {finding.name:<{NAME_WIDTH}} {lines[0]}")
        for line in lines[1:]:
            self.stdout.write(HANG + line)
        self.stdout.flush()
