"""`manage.py createkey NAME`: make an API key and print it, once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.keys import InvalidName, create_key
from common.database import migrate_when_empty


class Command(BaseCommand):
    """Make an API key."""

    help = "Make an API key and print it alone on stdout. It is shown this once; only its digest is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what the key is for, as lists show it")
        parser.add_argument("--org", default="default", help="organisation it belongs to; made when new (default)")

    def handle(self, *args: Any, **options: Any) -> None:
        migrate_when_empty()
        try:
            key, plain = create_key(name=options["name"], organization=options["org"])
        except InvalidName as error:
            raise CommandError(str(error)) from None
        # A second key of a name is let in: who has lost the first cannot be shown it again.
        if key.namesakes().exists():
            self.stderr.write(f"{key.organization} has another active key called {key.name}: tell them by the prefix.")
        self.stderr.write(f"Key {key.prefix}… of {key.organization}. Keep it: it is not shown again.")
        self.stdout.write(plain)
