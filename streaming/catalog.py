"""What can be asked for now: the models that workers serve, from their heartbeats, and under which policies."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from accounts.callers import Caller
from common.errors import NotFound, PermissionDenied, Unavailable
from inference.protocol import keys
from inference.protocol.settings import Settings
from streaming.policies import Policies
from streaming.prompts import PromptTemplate, TemplateError

logger = logging.getLogger(__name__)

FRESH_S = 5.0  # a worker silent for longer is not counted as ready
REMEMBER_S = 120.0  # a model whose workers are gone is queued for so long: they may be restarting
RETRY_S = 30.0
PATIENCE_S = 2.0  # for a look at the heartbeats; requests wait longer for a Redis that restarts
DEFAULT = "default"
_FIELDS = {"model": str, "context_length": int, "started_at": int | float}  # of a heartbeat


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is served: its name, its prompt template, and how many tokens fit."""

    name: str
    template: PromptTemplate
    context_length: int
    created: float


Templates = dict[str, PromptTemplate | float]  # by model, or when to try again


class Catalog:
    """The models served, refreshed in the background; `default` is the one served for longest.

    `templates` are those that were loaded before: to load one takes seconds.
    """

    def __init__(self, client: Redis, settings: Settings, *, templates: Templates | None = None) -> None:
        self._redis, self._folder = client, settings.models_path
        self.policies = Policies(client)
        self._models: dict[str, Model] = {}
        self._templates = {} if templates is None else templates
        self._now = 0.0  # on Redis' clock, as the heartbeats are
        self._unreadable: set[str] = set()  # workers of which that is logged
        self.workers: dict[str, dict[str, Any]] = {}
        self.redis_ok = False

    @property
    def ready(self) -> bool:
        """Whether Redis answers and at least one worker serves."""
        return self.redis_ok and any(self._now - w["seen_at"] < FRESH_S for w in self.workers.values())

    def models(self, caller: Caller) -> list[Model]:
        """List the models that are open to a caller, the one served for longest first."""
        open_to = [model for model in self._models.values() if caller.may_use(model.name)]
        return sorted(open_to, key=lambda model: (model.created, model.name))

    def find(self, name: str, caller: Caller) -> Model:
        """Return a model; raise `NotFound`, `PermissionDenied`, or `Unavailable` while nothing is served yet."""
        if not self._models:
            raise Unavailable("No worker serves a model yet.", headers={"retry-after": "5"})
        if name == DEFAULT:
            models = self.models(caller)
            if not models:
                raise PermissionDenied("model: none that is served now is open to this key.", code="model_not_allowed")
            return models[0]
        if name not in self._models:
            raise NotFound(f"model: {name} is not served here. GET /v1/models lists what is.", code="model_not_found")
        caller.check_model(name)
        return self._models[name]

    async def refresh(self) -> None:
        """Read the workers' heartbeats, and what policies there are."""
        try:
            async with asyncio.timeout(PATIENCE_S), self._redis.pipeline(transaction=False) as pipe:
                pipe.time()
                pipe.hgetall(keys.WORKERS)
                (seconds, micros), rows = await pipe.execute()
        except (RedisError, OSError):
            self.redis_ok = False
            raise
        self.redis_ok = True
        self._now = seconds + micros / 1e6
        self.workers = {}
        for name, raw in rows.items():
            worker = name.decode()
            try:
                about = json.loads(raw)
                if self._now - about["seen_at"] >= REMEMBER_S:
                    await self._redis.hdel(keys.WORKERS, worker)
                else:
                    _check(about)
                    self.workers[worker] = about
            except (ValueError, KeyError, TypeError) as error:  # the others still count
                if worker not in self._unreadable:
                    logger.error("the heartbeat of %s cannot be read, so it serves nobody here: %r", worker, error)
                    self._unreadable.add(worker)
        await self._learn_models()
        await self.policies.refresh()

    async def _learn_models(self) -> None:
        models: dict[str, Model] = {}
        for about in sorted(self.workers.values(), key=lambda about: about["started_at"], reverse=True):
            name = about["model"]
            if template := await self._template(name):
                models[name] = Model(name, template, about["context_length"], about["started_at"])
        self._models = models

    async def _template(self, name: str) -> PromptTemplate | None:
        """Return a model's template, None where we cannot tokenise for it: looked at again after a while."""
        known = self._templates.get(name)
        if isinstance(known, PromptTemplate):
            return known
        if known is None or time.monotonic() > known:
            try:
                self._templates[name] = loaded = await asyncio.to_thread(PromptTemplate.load, self._folder / name)
                return loaded
            except TemplateError as error:
                logger.error("a worker serves %s, but this gateway cannot: %s", name, error)
                self._templates[name] = time.monotonic() + RETRY_S
        return None


def _check(about: dict[str, Any]) -> None:
    """Raise `KeyError` or `TypeError` where a heartbeat lacks what we need of it."""
    for name, kind in _FIELDS.items():
        if not isinstance(about[name], kind):
            raise TypeError(f"{name}: {about[name]!r}")
