"""`manage.py prune`: delete old records."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from records.pruning import days_ago, prune, records_before
from records.trigger_pruning import prune_triggers, triggers_before

MOST_DAYS = 36_500


class Command(BaseCommand):
    """Delete old records."""

    help = (
        "Delete records and safety triggers older than SLUICE_RECORDS_KEEP_DAYS, as is done in the background anyway. "
        "Daily usage stays. Reports of such messages that come later are set aside."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=_days, metavar="N", help="delete what is older than N days instead")
        parser.add_argument("--dry-run", action="store_true", help="only say how many records that would delete")

    def handle(self, *args: Any, **options: Any) -> None:
        days = settings.SLUICE.records_keep_days if options["days"] is None else options["days"]
        if not days:
            self.stdout.write("SLUICE_RECORDS_KEEP_DAYS=0 keeps all records. Say --days to delete some.")
            return
        before = days_ago(days)
        count = records_before(before).count() if options["dry_run"] else prune(before)
        done = "would be deleted" if options["dry_run"] else "deleted"
        self.stdout.write(f"{count:,} records of messages from before {before:%Y-%m-%d %H:%M} UTC {done}.")
        found = triggers_before(before).count() if options["dry_run"] else prune_triggers(before)
        self.stdout.write(f"{found:,} safety triggers from before then {done}.")


def _days(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MOST_DAYS:
        raise ArgumentTypeError(f"expected a whole number from 1 to {MOST_DAYS}")
    return int(text)
