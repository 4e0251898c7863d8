"""`manage.py reports`: what waits for the database, and what was set aside."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from common.redis import connection
from records import spool
from records.spool import SetAside

SHOWN = 50


class Command(BaseCommand):
    """Show, retry or drop reports that were set aside."""

    help = "Show how many reports wait for the database, and those that were set aside because they make no record."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", metavar="ID", help="of reports that were set aside")
        parser.add_argument("--all", action="store_true", help="all of them")
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--retry", action="store_true", help="store them after all, once what was wrong is mended")
        action.add_argument("--drop", action="store_true", help="forget them: what they tell is lost")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["retry"] or options["drop"]:
            self._act(options["ids"], everything=options["all"], retry=options["retry"])
        else:
            self._show(options["ids"], everything=options["all"])

    def _show(self, ids: list[str], *, everything: bool) -> None:
        now = spool.look(connection())
        oldest = f", the oldest for {now.oldest_s:.0f} s" if now.waiting else ""
        self.stdout.write(f"{now.waiting} wait for the database{oldest}; {now.set_aside} were set aside.")
        for report in islice(spool.reports_set_aside(connection(), ids), None if everything else SHOWN):
            self.stdout.write(_line(report))

    def _act(self, ids: list[str], *, everything: bool, retry: bool) -> None:
        if everything == bool(ids):
            raise CommandError("Name the reports by their ids (`manage.py reports` lists them), or give --all.")
        reports = list(spool.reports_set_aside(connection(), ids))
        if missing := set(ids) - {report.id for report in reports}:
            raise CommandError(f"Not set aside: {', '.join(sorted(missing))}. Nothing was done.")
        for report in reports:
            (spool.retry if retry else spool.drop)(connection(), report)
        self.stdout.write(f"{len(reports)} {'will be stored' if retry else 'dropped'}.")


def _line(report: SetAside) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(int(report.id.partition("-")[0]) / 1000))
    return f"{report.id}  {at} UTC  {_message_of(report)}  {report.origin}  {report.fault}"


def _message_of(report: SetAside) -> str:
    """Return the message that a report is about, as far as it can be read; no more of it is shown."""
    try:
        return str(json.loads(report.blob)["id"])[:60]
    except (ValueError, TypeError, KeyError, LookupError):
        return "-"
