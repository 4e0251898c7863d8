"""`manage.py keys`: list the API keys."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.describing import ago, limits, state
from accounts.models import ApiKey, Organization
from accounts.terms import LIMITS

HEADINGS = ("organisation", "name", "prefix", "scopes", "state", "limits", "last used")
FIELDS = (
    "id", "name", "prefix", "scopes", "allowed_models", *LIMITS, "shadow", "priority", "policy",
    "created_at", "expires_at", "last_used_at", "revoked_at", "old_prefix", "old_until",
)  # fmt: skip


class Command(BaseCommand):
    """List API keys."""

    help = "List the API keys that are not revoked, by organisation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--org", default="", help="only those of this organisation")
        parser.add_argument("--all", action="store_true", help="revoked ones, too")
        parser.add_argument("--json", action="store_true", help="a JSON list, with all fields but the secret ones")

    def handle(self, *args: Any, **options: Any) -> None:
        keys = ApiKey.objects.select_related("organization").order_by("organization__name", "name", "created_at")
        if options["org"]:
            if not Organization.objects.filter(name=options["org"]).exists():
                raise CommandError(f"There is no organisation called {options['org']}.")
            keys = keys.filter(organization__name=options["org"])
        if not options["all"]:
            keys = keys.filter(revoked_at=None)
        if options["json"]:
            self.stdout.write(json.dumps([_fields(key) for key in keys], default=str, indent=2))
        elif rows := [_row(key) for key in keys]:
            self._table([tuple(word.upper() for word in HEADINGS), *rows])
        else:
            self.stderr.write("There are no keys. `manage.py createkey NAME` makes one.")

    def _table(self, rows: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(key: ApiKey) -> Sequence[str]:
    scopes = ", ".join(key.scopes)
    return (str(key.organization), key.name, key.prefix, scopes, state(key), limits(key) or "-", ago(key.last_used_at))


def _fields(key: ApiKey) -> dict[str, Any]:
    mine = {name: getattr(key, name) for name in FIELDS}
    return {"organization": key.organization.name, "state": key.state} | {
        name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in mine.items()
    }
