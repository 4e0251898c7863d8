"""Databases for the products that tests start, on the PostgreSQL that TEST_DATABASE_URL names; dropped at the end."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, LiteralString
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

from tests.environment import ROOT


def named(url: str, name: str) -> str:
    """Return the URL of another database on the same server."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def make_database(server: str) -> str:
    """Make a migrated database on a server; return its URL."""
    return _made(server, _template(server))


def make_empty_database(server: str) -> str:
    """Make a database without tables; return its URL."""
    return _made(server, "template0")


@contextmanager
def closed(url: str) -> Iterator[None]:
    """Refuse everybody a database for a while, and end the connections that there are."""
    name = _name_of(url)
    _run(url, "ALTER DATABASE {} ALLOW_CONNECTIONS false", name)
    with psycopg.connect(named(url, "postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
    try:
        yield
    finally:
        _run(url, "ALTER DATABASE {} ALLOW_CONNECTIONS true", name)


def rows(url: str, query: LiteralString) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


@cache
def _template(server: str) -> str:
    """Migrate a database once, as an operator would, for others to be copied from; return its name."""
    url = make_empty_database(server)
    environment = os.environ | {"DATABASE_URL": url}
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=environment, check=True)
    return _name_of(url)


def _made(server: str, template: str) -> str:
    name = f"sluice_{uuid4().hex}"
    _run(server, "CREATE DATABASE {} TEMPLATE {}", name, template)
    atexit.register(_drop, server, name)
    return named(server, name)


def _drop(server: str, name: str) -> None:
    with suppress(psycopg.OperationalError):  # all of the server may be gone by now
        _run(server, "DROP DATABASE {} WITH (FORCE)", name)


def _name_of(url: str) -> str:
    return urlsplit(url).path[1:]


def _run(url: str, statement: LiteralString, *names: str) -> None:
    with psycopg.connect(named(url, "postgres"), autocommit=True) as connection:
        connection.execute(SQL(statement).format(*map(Identifier, names)))
