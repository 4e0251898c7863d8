"""DATABASE_URL, as Django is given it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.databases import databases_of
from inference.protocol.settings import load


def database(url: str) -> dict[str, Any]:
    return databases_of(load({"DATABASE_URL": url}))["default"]


def test_it_works() -> None:
    got = database("postgres://u:p%2Fw@host:5433/sluice")
    assert got["ENGINE"] == "django.db.backends.postgresql"
    where = [got[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")]
    assert where == ["sluice", "u", "p/w", "host", "5433"]


def test_without_one_it_is_sqlite() -> None:
    assert database("")["ENGINE"] == "django.db.backends.sqlite3"


def test_options_of_the_library_are_in_the_query() -> None:
    got = database("postgresql://u@/sluice?host=/run/postgresql&sslmode=verify-full&connect_timeout=2")
    assert got["HOST"] == "/run/postgresql"
    assert (got["OPTIONS"]["sslmode"], got["OPTIONS"]["connect_timeout"]) == ("verify-full", "2")


def test_several_hosts() -> None:
    got = database("postgres://a:1,b:2/sluice?target_session_attrs=read-write")
    assert (got["HOST"], got["PORT"]) == ("a,b", "1,2")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("mysql://u:secret@host/db", "expected postgres://…, not mysql://…"),
        ("host=h password=secret", "expected postgres://…"),
        ("postgres://u:secret/w@host/db", "no port can be read"),
        ("postgres://u:secret@host:0/db", "no port can be read"),
        ("postgres://u:secret@host", "expected the name of a database"),
        ("postgres://u:secret@host/db?sslmod=require", r"expected postgres://user:password@host:port/name\?sslmode=…"),
        ("postgres://u:secret@[::1/db", "expected postgres://user:password@host"),
    ],
)
def test_it_rejects(url: str, complaint: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"DATABASE_URL: {complaint}") as raised:
        database(url)
    assert "secret" not in str(raised.value)


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImproperlyConfigured, match=r"pip install 'sluice\[postgres\]'"):
        database("postgres://host/db")
