"""Where things are kept: the database, Redis, and what waits in Redis for the database."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.executor import MigrationExecutor

from common.redis import connection as redis_connection
from common.redis_check import UnfitRedis, judge
from console.doctor.findings import Finding, fail, ok, warn
from inference.protocol import keys
from records import spool

MUCH = 0.8  # of Redis' memory; the last twentieth is refused to new requests
CLOCK_WARN_S, CLOCK_FAIL_S = 1.0, 30.0
UNREADABLE = "its URL cannot be read."  # an error's own words may have a part of the password


def database() -> Iterator[Finding]:
    """Look whether the database answers and is of this version."""
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
        empty = not connection.introspection.table_names()
    except (DatabaseError, InterfaceError, OSError) as error:
        yield fail("database", f"It does not answer: {_line(error)}", "Look at DATABASE_URL, the server, and its disk.")
        return
    if empty:
        yield warn("database", "It has no tables yet.", "Run: manage.py migrate (`serve` does it for SQLite)")
    elif plan:
        yield fail("database", f"It lacks {len(plan)} migrations.", "Back it up, then run: manage.py migrate")
    else:
        yield ok("database", f"{connection.vendor}, up to date")


def redis_answers() -> str:
    """Return why Redis cannot be reached, "" where it can."""
    try:
        redis_connection().ping()
    except ValueError:
        return UNREADABLE
    except (redis.RedisError, OSError) as error:
        return _line(error)
    return ""


def redis_server() -> Iterator[Finding]:
    """Look at a Redis that answers."""
    client = redis_connection()
    before = time.time()
    seconds, micros = client.time()
    off_s = seconds + micros / 1e6 - (before + time.time()) / 2
    try:
        info = client.info()
    except redis.ResponseError as error:
        yield warn("redis", f"It tells nothing of itself ({_line(error)}).", "Allow it INFO, or look yourself.")
        info = {}
    if info:
        yield from judge_redis(info)
    yield judge_clock(off_s)
    if settings.SLUICE.broker != settings.SLUICE.redis:
        yield _broker(settings.SLUICE.broker)


def judge_redis(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge a server by its own account."""
    yield _fitness(info)
    yield _memory(info)
    yield _persistence(info)


def _fitness(info: Mapping[str, Any]) -> Finding:
    try:
        doubt = judge(info)
    except UnfitRedis as error:
        fault, _, advice = str(error).partition(". ")
        return fail("redis", f"{fault}.", advice)
    if doubt:
        fault, _, advice = doubt.partition(". ")
        return warn("redis", f"{fault}.", advice)
    return ok("redis", f"{info['redis_version']}, noeviction")


def _memory(info: Mapping[str, Any]) -> Finding:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    most = limit or int(info.get("total_system_memory", 0))
    text = f"{used / 1e6:,.0f} MB" + (f" of {most / 1e6:,.0f} MB" if most else "")
    if most and used > MUCH * most:
        return warn(
            "redis memory",
            f"{text} are used.",
            "Give it more, or lower SLUICE_EVENT_LOG_MAX_MB.",
        )
    return ok("redis memory", f"{text} used{'' if limit else '; no maxmemory is set'}")


def _persistence(info: Mapping[str, Any]) -> Finding:
    if info.get("aof_last_write_status", "ok") != "ok":
        return fail("redis file", "Its append-only file cannot be written.", "Look at the disk of the Redis server.")
    if not info.get("aof_enabled"):
        return warn(
            "redis file",
            "It keeps no append-only file: a restart loses running streams and unbilled usage.",
            "Run CONFIG SET appendonly yes, or set it in your provider's parameters.",
        )
    return ok("redis file", "append-only file on")


def judge_clock(off_s: float) -> Finding:
    """Judge how far the clock of Redis is ahead of ours."""
    text = f"{abs(off_s):.2f} s {'ahead of' if off_s > 0 else 'behind'} this machine's clock"
    advice = "Run an NTP client on both machines: ages, limits and expiry dates go by these clocks."
    if abs(off_s) >= CLOCK_FAIL_S:
        return fail("redis clock", text, advice)
    return warn("redis clock", text, advice) if abs(off_s) >= CLOCK_WARN_S else ok("redis clock", text)


def _broker(url: str) -> Finding:
    try:
        with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5) as client:
            client.ping()
    except ValueError:
        return fail("broker", UNREADABLE, "Look at SLUICE_BROKER_URL.")
    except (redis.RedisError, OSError) as error:
        return fail("broker", f"It does not answer: {_line(error)}", "Look at SLUICE_BROKER_URL.")
    return ok("broker", "answers")


def waiting_reports() -> Iterator[Finding]:
    """Look at what waits in Redis for the database, and at the room for streams."""
    ours, now = settings.SLUICE, spool.look(redis_connection())
    text = f"{now.waiting:,} reports wait for the database" + (f", for {now.oldest_s:.0f} s" if now.waiting else "")
    late = now.waiting > ours.spool_alarm_reports or now.oldest_s > ours.spool_alarm_s
    if now.waiting >= ours.spool_limit:
        yield fail("spool", f"{text}: new requests are refused.", "See that the database and Celery's worker run.")
    elif late:
        yield warn("spool", f"{text}.", "See that the database and Celery's worker run.")
    else:
        yield ok("spool", text)
    if now.set_aside:
        yield warn("spool", f"{now.set_aside:,} reports make no record.", "See: manage.py reports")
    if redis_connection().get(keys.LOGS_FULL) == b"1":
        yield fail("event logs", "Running streams fill SLUICE_EVENT_LOG_MAX_MB: new requests are refused.", "Raise it.")


def _line(error: Exception) -> str:
    """Return an error in one line."""
    return " ".join(str(error).split())[:200]
