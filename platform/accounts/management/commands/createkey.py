"""`manage.py createkey NAME`: make an API key and print it, once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand

from accounts.keys import create_key
from accounts.options import complaint, moment, whole_number, words
from accounts.terms import LIMITS, PRIORITIES, SCOPES
from common.database import migrate_when_empty

GIVEN = (*LIMITS, "shadow", "priority", "policy", "allowed_models", "expires_at")


class Command(BaseCommand):
    """Make an API key."""

    help = "Make an API key and print it alone on stdout. It is shown this once; only its digest is kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="what the key is for, as lists show it")
        parser.add_argument("--org", default="default", help="organisation it belongs to; made when new (default)")
        parser.add_argument(
            "--scope", type=words(SCOPES), action="extend", metavar="SCOPE",
            help=f"what it may do: {', '.join(SCOPES)}; again or with commas for several (inference,usage)",
        )  # fmt: skip
        parser.add_argument(
            "--models", type=words(), action="extend", dest="allowed_models", metavar="MODEL",
            help="the models it may use, with commas for several (all)",
        )  # fmt: skip
        parser.add_argument("--expires", type=moment, dest="expires_at", help="30d, 12h, 2030-01-31, … (never)")
        for name, about in ABOUT.items():
            parser.add_argument(
                f"--{name.replace('_', '-')}", type=whole_number, metavar="N", help=f"{about} (unlimited)"
            )
        parser.add_argument("--shadow", action="store_true", help="count its limits without refusing anything")
        parser.add_argument("--priority", default="", choices=PRIORITIES, help="its class (the organisation's)")
        parser.add_argument("--policy", default="", metavar="NAME", help="its safety policy (the organisation's)")

    def handle(self, *args: Any, **options: Any) -> None:
        migrate_when_empty()
        given = {name: options[name] for name in GIVEN}
        if options["scope"]:
            given["scopes"] = list(dict.fromkeys(options["scope"]))
        try:
            key, plain = create_key(name=options["name"], organization=options["org"], **given)
        except ValidationError as error:
            raise complaint(error) from None
        # A second key of a name is let in: who has lost the first cannot be shown it again.
        if key.namesakes().exists():
            self.stderr.write(f"{key.organization} has another active key called {key.name}: tell them by the prefix.")
        self.stderr.write(f"Key {key.prefix}… of {key.organization}. Keep it: it is not shown again.")
        self.stdout.write(plain)


ABOUT = {
    "rpm": "requests a minute",
    "itpm": "input tokens a minute",
    "otpm": "output tokens a minute",
    "max_streams": "messages at once",
    "budget_tokens": "input and output tokens, ever",
    "budget_tokens_day": "input and output tokens a day (UTC)",
    "budget_tokens_month": "input and output tokens a month (UTC)",
}
