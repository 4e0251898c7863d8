"""Telling gateways and workers which policies there are, in Redis: see `inference.protocol.policies`.

Definitions and phrases go there under their digests; which of them a name stands for is switched last, all in one
transaction. What was replaced stays for as long as a message can live that began with it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

import redis
from django.conf import settings
from django.db import DatabaseError, connections
from redis.exceptions import RedisError

from common.redis import connection
from inference.protocol.categories import BLOCKLIST, blocklist
from inference.protocol.policies import (
    CURRENT,
    DEFINITIONS,
    OFF,
    PHRASES,
    SPAN_KEY,
    Policy,
    PolicyError,
    Rule,
    Side,
    digest_of,
)
from safety.models import Blocklist, SafetyPolicy

KEPT_S = 2 * 86400  # longer than any message lives
REPLACED = "sluice:{policies}:replaced"  # sorted set: digest of what is current no more -> since when, in s

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Published:
    """What Redis has to have: digests by name, definitions and phrases by digest."""

    current: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    phrases: dict[str, str] = field(default_factory=dict)


def span_key() -> str:
    """Return what the digests of flagged spans are keyed with."""
    return hmac.new(settings.SECRET_KEY.encode(), b"sluice: spans of safety triggers", hashlib.sha256).hexdigest()


def publish() -> None:
    """Publish what there is now, unless Redis has it; a Redis that is away is told later (`safety.tasks`)."""
    try:
        heal(connection())
    except (RedisError, OSError) as error:
        logger.warning("gateways and workers cannot be told of the safety policies yet: %s", error)


def publish_at_start() -> None:
    """Publish from a thread of a process that starts, and has better to do than to wait for a database."""
    try:
        publish()
    except DatabaseError as error:
        logger.warning("safety policies cannot be read yet: %s", error)
    finally:
        connections.close_all()


def heal(client: redis.Redis) -> bool:
    """Publish what there is now where Redis has something else, or something to forget; return whether it had."""
    if _is_published(client, wanted()):
        return False
    client.transaction(_write, CURRENT)  # again, and with what there is then, where somebody else has written meanwhile
    return True


def wanted() -> Published:
    """Return what the database says.

    A policy that cannot be what it says is left out, and so are messages under it: nothing leaves unchecked.
    """
    blocklists = {row.name: row for row in Blocklist.objects.filter(active=True)}
    encoded = {name: row.encoded for name, row in blocklists.items()}
    digests = {name: digest_of(text) for name, text in encoded.items()}
    found = Published(phrases={digests[name]: text for name, text in encoded.items()})
    for row in SafetyPolicy.objects.exclude(name=OFF).prefetch_related("rules", "blocklists"):
        try:
            policy = definition(row, digests)
        except PolicyError as error:
            logger.error("the safety policy %s is not to be had: %s", row.name, error)
            continue
        found.current[policy.name] = policy.digest
        found.definitions[policy.digest] = policy.encode()
    return found


def definition(row: SafetyPolicy, digests: Mapping[str, str]) -> Policy:
    """Return a policy as workers read it, with the digests of active blocklists by name; raise `PolicyError`."""
    chosen = {blocklist.name for blocklist in row.blocklists.all()}
    named = {category for rule in row.rules.all() for category in rule.categories}
    rules = {side: tuple(_rules(row, side, digests)) for side in get_args(Side)}
    return Policy(
        name=row.name,
        lookahead_tokens=row.lookahead_tokens,
        keep_text_days=row.keep_text_days,
        blocklists={
            name: digest
            for name, digest in digests.items()
            if row.built_in or name in chosen or blocklist(name) in named
        },
        **rules,
    )


def _rules(row: SafetyPolicy, side: Side, lists: Container[str]) -> Iterator[Rule]:
    """Yield the rules of a side, without the blocklists that there are not, or that are not active."""
    for rule in (rule.built() for rule in row.rules.all() if rule.side == side):
        left = tuple(name for name in rule.categories if _is_there(name, lists))
        if left or not rule.categories:  # an empty list would stand for all
            yield replace(rule, categories=left)


def _is_there(category: str, lists: Container[str]) -> bool:
    group, _, name = category.partition(".")
    return group != BLOCKLIST or not name or name in lists


def _is_published(client: redis.Redis, published: Published) -> bool:
    with client.pipeline(transaction=False) as pipe:
        pipe.hgetall(CURRENT)
        pipe.hkeys(DEFINITIONS)
        pipe.hkeys(PHRASES)
        pipe.get(SPAN_KEY)
        pipe.zcount(REPLACED, "-inf", time.time() - KEPT_S)
        current, definitions, phrases, key, overdue = pipe.execute()
    return (
        _text(current) == published.current
        and published.definitions.keys() <= {name.decode() for name in definitions}
        and published.phrases.keys() <= {name.decode() for name in phrases}
        and key == span_key().encode()
        and not overdue
    )


def _write(pipe: Any) -> None:
    """Queue all that makes Redis as it has to be."""
    published = wanted()  # read while CURRENT is watched, so that an older state never replaces a newer one
    there = {name.decode() for key in (DEFINITIONS, PHRASES) for name in cast(list[bytes], pipe.hkeys(key))}
    now = time.time()
    overdue = [name.decode() for name in pipe.zrangebyscore(REPLACED, "-inf", now - KEPT_S)]
    needed = published.definitions.keys() | published.phrases.keys()
    replaced, gone = there - needed, set(overdue) - needed
    pipe.multi()
    for key, values in ((DEFINITIONS, published.definitions), (PHRASES, published.phrases)):
        if values:
            pipe.hset(key, mapping=values)
        if gone:
            pipe.hdel(key, *gone)
    if replaced:
        pipe.zadd(REPLACED, dict.fromkeys(replaced, now), nx=True)
    if needed | gone:
        pipe.zrem(REPLACED, *needed, *gone)
    pipe.set(SPAN_KEY, span_key())
    pipe.delete(CURRENT)
    if published.current:
        pipe.hset(CURRENT, mapping=published.current)


def _text(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in found.items()}
