"""`manage.py rotatekey KEY`: give an API key a new text and print that, once."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.keys import KeyIsOver, rotate
from accounts.options import add_key, duration, one_key

OVERLAP = timedelta(hours=24)


class Command(BaseCommand):
    """Rotate an API key."""

    help = "Give an API key a new text, alone on stdout, this once. Its limits, records and what it counted stay."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_key(parser)
        parser.add_argument(
            "--overlap", type=duration, default=OVERLAP, help="how long the present text works on: 30m, 7d, 0 … (24h)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        key = one_key(options["key"], options["org"])
        if key.state == "expired":
            raise CommandError(f"{key} expired: its new text would be refused as well. Make another with createkey.")
        before = key.prefix
        if key.overlap:
            self.stderr.write(f"{key.old_prefix}…, from the rotation before, ends now.")
        try:
            plain = rotate(key, overlap=options["overlap"])
        except KeyIsOver as error:
            raise CommandError(str(error)) from None
        until = f"works until {key.old_until:%Y-%m-%d %H:%M} UTC" if key.old_until else "works no more"
        self.stderr.write(f"{before}… {until}. Key {key.prefix}… of {key.organization}: it is not shown again.")
        self.stdout.write(plain)
