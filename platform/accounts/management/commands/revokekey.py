"""`manage.py revokekey KEY`: end an API key for good."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.keys import KeyIsOver, end_overlap, revoke
from accounts.options import add_key, names_prefix, one_key


class Command(BaseCommand):
    """Revoke an API key."""

    help = "Revoke an API key. Gateways refuse it within a second. Streams that run go on; it can read none of them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_key(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        key = one_key(options["key"], options["org"])
        old = key.old_prefix
        try:
            if old is not None and names_prefix(options["key"], old):
                end_overlap(key)
                self.stdout.write(f"{old}…, the text before the last rotation, works no more. {key} goes on.")
            else:
                revoke(key)
                self.stdout.write(f"Revoked {key} of {key.organization}.")
        except KeyIsOver as error:
            raise CommandError(str(error)) from None
