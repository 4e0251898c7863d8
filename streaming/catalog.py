"""What can be asked for now: the models that workers serve, from their heartbeats."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from common.errors import NotFound, Unavailable
from inference.protocol import keys
from inference.protocol.settings import Settings
from streaming.prompts import PromptTemplate, TemplateError

logger = logging.getLogger(__name__)

FRESH_S = 5.0  # a worker silent for longer is not counted as ready
REMEMBER_S = 120.0  # a model whose workers are gone is queued for so long: they may be restarting
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is served: its name, its prompt template, and how many tokens fit."""

    name: str
    template: PromptTemplate
    context_length: int
    created: float


class Catalog:
    """The models served, refreshed in the background; `default` is the one served for longest."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._redis, self._folder = client, settings.models_path
        self._models: dict[str, Model] = {}
        self._templates: dict[str, PromptTemplate | None] = {}
        self.workers: dict[str, dict[str, Any]] = {}
        self.redis_ok = False

    @property
    def ready(self) -> bool:
        """Whether Redis answers and at least one worker serves."""
        return self.redis_ok and any(time.time() - w["seen_at"] < FRESH_S for w in self.workers.values())

    def models(self) -> list[Model]:
        """List the models, the one served for longest first."""
        return sorted(self._models.values(), key=lambda model: model.created)

    def find(self, name: str) -> Model:
        """Return a model by name; raise `NotFound`, or `Unavailable` while nothing is served yet."""
        models = self.models()
        if not models:
            raise Unavailable("No worker serves a model yet.", headers={"retry-after": "5"})
        if name == DEFAULT:
            return models[0]
        if name not in self._models:
            raise NotFound(f"model: {name} is not served here. GET /v1/models lists what is.")
        return self._models[name]

    async def run(self) -> None:
        """Refresh for ever."""
        while True:
            await asyncio.sleep(1.0)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the workers' heartbeats."""
        try:
            rows = cast(dict[bytes, bytes], await self._redis.hgetall(keys.WORKERS))
        except (RedisError, OSError) as error:
            self.redis_ok = False
            logger.warning("catalog: redis is away (%s)", error)
            return
        self.redis_ok = True
        now = time.time()
        self.workers = {}
        for worker, raw in rows.items():
            about = json.loads(raw)
            if now - about["seen_at"] < REMEMBER_S:
                self.workers[worker.decode()] = about
            else:
                await self._redis.hdel(keys.WORKERS, worker)
        await self._learn_models()

    async def _learn_models(self) -> None:
        for about in sorted(self.workers.values(), key=lambda about: about["started_at"]):
            name, length = about["model"], about["context_length"]
            template = await self._template(name)
            if template and (name not in self._models or self._models[name].context_length != length):
                self._models[name] = Model(name, template, length, about["started_at"])

    async def _template(self, name: str) -> PromptTemplate | None:
        """Return a model's template; None, and a line in the log once, where we cannot tokenise for it."""
        if name not in self._templates:
            try:
                self._templates[name] = await asyncio.to_thread(PromptTemplate.load, self._folder / name)
            except TemplateError as error:
                logger.error("a worker serves %s, but this gateway cannot: %s", name, error)
                self._templates[name] = None
        return self._templates[name]
