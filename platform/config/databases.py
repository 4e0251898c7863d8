"""Django's database settings from `DATABASE_URL`."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from inference.protocol.settings import Settings

# A database that vanishes without a word must not hold a thread for the two hours that TCP allows.
_PATIENCE = {
    "connect_timeout": 5,  # seconds, but for the last of these
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # ms
}
# Of each process. A connection costs PostgreSQL a process of its own, and a look for a key five times its own time.
_POOL = {
    "min_size": 0,
    "max_size": 10,
    "max_idle": 60.0,  # seconds, as those below
    "timeout": 3.0,
    "reconnect_timeout": 3.0,  # whoever asks afterwards begins anew: by default, pauses would grow up to minutes
}


def databases_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return Django's `DATABASES`; raise `ImproperlyConfigured` for a `DATABASE_URL` that cannot be used."""
    return {"default": _postgres(settings.database_url) if settings.database_url else _sqlite(settings)}


def _sqlite(settings: Settings) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": settings.home_path / "sluice.sqlite3",
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _postgres(url: str) -> dict[str, Any]:
    parts = _parsed(url)
    if not all(port.isdecimal() and 0 < int(port) < 65536 for port in parts.get("port", "1").split(",")):
        raise ImproperlyConfigured("DATABASE_URL: no port can be read; percent-encode a password's / and @.")
    if not ("dbname" in parts or "service" in parts):
        raise ImproperlyConfigured("DATABASE_URL: expected the name of a database after the host: postgres://…/name.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "OPTIONS": _PATIENCE | parts | {"pool": _POOL},
        "CONN_MAX_AGE": 0,  # each request has a thread of its own under Daphne: what a thread keeps would leak
        "CONN_HEALTH_CHECKS": True,  # before the pool gives one out, which may have died with its server
    }


def _parsed(url: str) -> dict[str, Any]:
    """Return the parts of a URL as PostgreSQL's own library reads it, several hosts and `?sslmode=…` included."""
    scheme, separator, _ = url.partition("://")
    if scheme not in ("postgres", "postgresql") or not separator:
        given = f", not {scheme}://…" if separator else ""
        raise ImproperlyConfigured(f"DATABASE_URL: expected postgres://…{given}")
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL needs psycopg, which cannot be used here ({str(error).splitlines()[0]}). "
            "Run: pip install 'sluice[postgres]', or 'psycopg[binary,pool]' alone."
        ) from None
    try:
        return conninfo_to_dict(url)
    except psycopg.Error:  # its message may have a part of the password
        raise ImproperlyConfigured(
            "DATABASE_URL: expected postgres://user:password@host:port/name?sslmode=…, with parameters that libpq "
            "knows and special characters percent-encoded."
        ) from None
