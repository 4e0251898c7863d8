"""How many files, sockets among them, a process may have open."""

from __future__ import annotations

import resource


def allow_many() -> None:
    """Raise the limit as far as we may: each stream has a socket, at either end."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
