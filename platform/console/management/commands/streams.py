"""`manage.py streams`: what is open or queued now."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import redis
from django.core.management.base import CommandError

from accounts.models import Organization
from console.live.columns import Column, lines_of, width_of
from console.live.names import Names, names_of
from console.live.shown import age_text, ms_text
from console.live.streams import LiveStream, ended_streams, open_streams
from console.management.redis_command import RedisCommand


class Command(RedisCommand):
    """List the streams that are open or queued."""

    help = (
        "List the messages that wait or run, by Redis' account: queued, prefill, decoding, held (by safety), slow (its "
        "client takes nothing), resumable (it runs without a reader, who may come back), cancelling, ended."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--org", default="", metavar="NAME", help="only those of this organisation")
        parser.add_argument("--ended", action="store_true", help="also those that ended and can still be read again")
        parser.add_argument("--json", action="store_true", help="a JSON list, with more fields")

    def act(self, client: redis.Redis, **options: Any) -> None:
        organization = _id_of(options["org"]) if options["org"] else ""
        found = open_streams(client)
        known = {stream.id for stream in found}
        ended = ended_streams(client) if options["ended"] else iter(())
        streams = [
            stream
            for stream in chain(found, (stream for stream in ended if stream.id not in known))
            if organization in ("", stream.organization)
        ]
        names = names_of(streams)
        if options["json"]:
            self.stdout.write(json.dumps([_fields(stream, names) for stream in streams], indent=2))
        elif streams:
            self._table(streams, names)
        else:
            self.stderr.write("No stream is open or queued.")

    def _table(self, streams: Sequence[LiveStream], names: Names) -> None:
        lines, left_out = lines_of(_columns(streams, names), width_of(terminal=self.stdout.isatty()))
        for line in lines:
            self.stdout.write(line)
        if left_out:
            self.stderr.write(f"No room for: {', '.join(left_out)}. A wider terminal shows them, and so does --json.")


def _id_of(name: str) -> str:
    found = Organization.objects.filter(name=name).values_list("id", flat=True).first()
    if found is None:
        raise CommandError(f"There is no organisation called {name}.")
    return str(found)


def _columns(streams: Sequence[LiveStream], names: Names) -> list[Column]:
    return [
        Column("message", [stream.id for stream in streams]),
        Column("key", [names.key(stream) for stream in streams], cut=True),
        Column("organisation", [names.organization(stream) for stream in streams], cut=True),
        Column("state", [stream.outcome if stream.state == "ended" else stream.state for stream in streams]),
        Column("tokens", [f"{stream.output_tokens:,}" for stream in streams], right=True),
        Column("tok/s", [f"{s.tokens_per_s:,.1f}" if s.tokens_per_s else "-" for s in streams], right=True, cut=True),
        Column(
            "ttft",
            ["-" if s.ttft_s is None else _close(ms_text(s.ttft_s * 1000)) for s in streams],
            right=True,
            cut=True,
        ),
        Column("age", [_close(age_text(stream.age_s)) for stream in streams], right=True),
        Column("try", [str(stream.attempt or "-") for stream in streams], right=True),
        Column("readers", [str(stream.readers) for stream in streams], right=True),
        Column("model", [stream.model for stream in streams], cut=True),
        Column("worker", [stream.worker or "-" for stream in streams], cut=True),
        Column("gateway", [stream.gateway or "-" for stream in streams], cut=True),
    ]


def _fields(stream: LiveStream, names: Names) -> dict[str, Any]:
    return asdict(stream) | {
        "organization": names.organization(stream),
        "organization_id": stream.organization,
        "key": names.key(stream),
        "key_id": stream.key,
        "came_ms": round(stream.came_ms),
        "age_s": round(stream.age_s, 3),
        "tokens_per_s": round(stream.tokens_per_s, 2),
    }


def _close(text: str) -> str:
    """Return a duration as one word."""
    return text.replace(" ", "")
