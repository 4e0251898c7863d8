"""Bringing an empty database up to date, so that a fresh machine needs no extra step."""

from __future__ import annotations

import fcntl

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor


def migrate_when_empty() -> None:
    """Run the migrations on a SQLite database that has no tables yet; safe for several processes at once.

    Whoever runs a database server decides when it is migrated: `CommandError` says so where none has been.
    """
    if connection.vendor != "sqlite":
        if not connection.introspection.table_names():
            raise CommandError("The database of DATABASE_URL has no tables yet. Make them: manage.py migrate")
        return
    settings.SLUICE.home_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(settings.SLUICE.home_path / "migrate.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not connection.introspection.table_names():
            call_command("migrate", verbosity=0, interactive=False)


def bring_database() -> None:
    """Make the tables of an empty SQLite database, and refuse one of an older version."""
    migrate_when_empty()
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("The database lacks migrations. Back it up, then run: manage.py migrate")
