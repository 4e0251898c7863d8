"""`manage.py cancel_stream MESSAGE`: end a message."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import redis
from django.core.management.base import CommandError

from console.live.log import Expired, NoSuchMessage, Standing, ask_to_end, standing, wait_for_end
from console.live.streams import find_stream
from console.management.redis_command import RedisCommand
from records.models import RequestRecord

PATIENCE_S = 5.0


class Command(RedisCommand):
    """Cancel a stream."""

    help = "End a message as its client can: its stream ends with `cancelled`. What has ended stays as it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("message", metavar="MESSAGE", help="its id, as `manage.py streams` lists it")

    def act(self, client: redis.Redis, **options: Any) -> None:
        message_id = options["message"]
        try:
            before = standing(client, message_id)
            if before.outcome:
                self.stdout.write(f"{message_id} had ended before: {before.outcome}.")
                return
            ask_to_end(client, message_id)
            now = wait_for_end(client, message_id, patience_s=PATIENCE_S)
            self.stdout.write(_told(client, message_id, now))
        except (NoSuchMessage, Expired) as error:
            self.stdout.write(f"{message_id} had ended before: {_recorded(message_id, error)}.")


def _recorded(message_id: str, error: Exception) -> str:
    """Return how a message ended whose log is gone, as its record tells; raise for one that nobody knows."""
    outcome = RequestRecord.objects.filter(pk=message_id).values_list("outcome", flat=True).first()
    if outcome is None and isinstance(error, NoSuchMessage):
        raise CommandError(str(error)) from None
    return outcome or "its stream has expired"


def _told(client: redis.Redis, message_id: str, now: Standing) -> str:
    if now.outcome == "cancelled":
        return f"{message_id} is cancelled."
    if now.outcome:
        return f"{message_id} ended before it could be cancelled: {now.outcome}."
    found = find_stream(client, message_id)
    if found and found.worker:
        return f"{message_id} is asked to end. Its worker, {found.worker}, has not done so yet."
    return f"{message_id} is asked to end. No worker has it yet: the first that takes it, or its timeout, ends it."
