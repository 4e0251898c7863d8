"""The database, in a few words."""

from __future__ import annotations

from typing import Any

from django.db import connection


def describe() -> dict[str, Any]:
    """Return its `name`, `version` and `size` in bytes, in two queries."""
    postgres = connection.vendor == "postgresql"
    size = (
        "SELECT pg_database_size(current_database())"
        if postgres
        else "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    )
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if postgres else "SELECT sqlite_version()")
        (version,) = cursor.fetchone() or ("",)
        cursor.execute(size)
        (num_bytes,) = cursor.fetchone() or (0,)
    return {"name": connection.display_name, "version": str(version).partition(" ")[0], "size": num_bytes}
