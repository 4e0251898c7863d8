"""What commands for operators share: they look into Redis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import redis
from django.core.management.base import BaseCommand, CommandError

from common.redis import connection


class RedisCommand(BaseCommand, ABC):
    """A command that ends in one line where Redis does not answer."""

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.act(connection(), **options)
        except redis.RedisError as error:
            said = " ".join(str(error).split())
            raise CommandError(f"Redis does not answer ({said}). `manage.py doctor` looks into it.") from None

    @abstractmethod
    def act(self, client: redis.Redis, **options: Any) -> None:
        """Do what the command is for."""
