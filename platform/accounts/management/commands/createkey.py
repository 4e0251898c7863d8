"""`manage.py createkey NAME`: make an API key and print it, once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from accounts.keys import create_key
from common.database import migrate_when_empty


class Command(BaseCommand):
    """Make an API key."""

    help = "Make an API key and print it alone on stdout. It is shown this once; only its digest is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what the key is for, as lists show it")
        parser.add_argument("--org", default="default", help="organisation it belongs to; made when new (default)")

    def handle(self, *args: Any, **options: Any) -> None:
        migrate_when_empty()
        key, plain = create_key(name=options["name"], organization=options["org"])
        self.stderr.write(f"Key {key.prefix}… of {key.organization}. Keep it: it is not shown again.")
        self.stdout.write(plain)
