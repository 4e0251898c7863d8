"""`manage.py replay MESSAGE`: print a stored stream as it was sent."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from typing import Any

import redis
from django.core.management.base import CommandError

from console.live.log import Expired, NoSuchMessage, frames, standing
from console.management.redis_command import RedisCommand


class Command(RedisCommand):
    """Replay a stream."""

    help = "Print the stream of a message from its log, as it was sent. One that still runs is printed as far as it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("message", metavar="MESSAGE", help="its id, as `manage.py streams --ended` lists it")
        parser.add_argument("--from", type=_event_id, default=1, dest="first", metavar="ID", help="first event (1)")

    def act(self, client: redis.Redis, **options: Any) -> None:
        message_id, first = options["message"], options["first"]
        try:
            now = standing(client, message_id)
            if first > now.last_id:
                raise CommandError(f"--from {first}: the stream of {message_id} has {now.last_id} events so far.")
            self._write(frames(client, message_id, first=first))
        except (NoSuchMessage, Expired) as error:
            raise CommandError(str(error)) from None
        if not now.outcome:
            self.stderr.write(f"{message_id} still runs: this is what there is so far.")

    def _write(self, found: Iterator[bytes]) -> None:
        try:
            for frame in found:
                self.stdout.write(frame.decode("ascii"), ending="")
            self.stdout.flush()
        except BrokenPipeError:  # `| head` has seen enough; Python would complain of it once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _event_id(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text[:16]) >= 1:
        raise ArgumentTypeError(f"expected the id of an event, a whole number from 1, not {text!r}")
    return int(text)
