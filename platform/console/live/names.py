"""What people call the organisations and keys of messages."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from django.db import DatabaseError

from accounts.models import ApiKey, Organization

logger = logging.getLogger(__name__)

AGE_S = 30.0  # how long a name may be told that has been changed
PAUSE_S = 10.0  # that a database which did not answer is left alone: each question to it holds up the table for seconds


class Owned(Protocol):
    """What belongs to a key of an organisation, by their ids."""

    @property
    def organization(self) -> str: ...

    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Names:
    """Names by id."""

    organizations: dict[str, str]
    keys: dict[str, str]

    def organization(self, stream: Owned) -> str:
        """Return an organisation's name, its id where it has been deleted."""
        return self.organizations.get(stream.organization, stream.organization)

    def key(self, stream: Owned) -> str:
        """Return a key's name, its id where it has been deleted."""
        return self.keys.get(stream.key, stream.key)


def names_of(streams: Iterable[Owned]) -> Names:
    """Look the names up, in two queries."""
    streams = list(streams)
    organizations = Organization.objects.in_bulk({stream.organization for stream in streams})
    keys = ApiKey.objects.in_bulk({stream.key for stream in streams})
    return Names(
        {str(id): found.name for id, found in organizations.items()}, {str(id): key.name for id, key in keys.items()}
    )


class NameBook:
    """Names that are looked up once, and again after a while: some may have been changed."""

    def __init__(self) -> None:
        self._names = Names({}, {})
        self._due = 0.0  # when what is known is too old
        self._paused_until = 0.0

    def learn(self, streams: Sequence[Owned]) -> Names:
        """Return names, looked up where one is not known or all are old: in two queries, or in none.

        Without a database the old ones go on, and who is new has ids for names.
        """
        known = self._names
        new = [s for s in streams if s.organization not in known.organizations or s.key not in known.keys]
        now = time.monotonic()
        old = now >= self._due
        if not (new or old) or now < self._paused_until:
            return known
        try:
            found = _all_names(streams if old else new)
        except DatabaseError as error:
            logger.warning("names of streams: the database does not answer: %s", str(error).partition("\n")[0])
            self._paused_until = time.monotonic() + PAUSE_S
            return known
        if old:
            self._due, self._names = time.monotonic() + AGE_S, found
        else:
            self._names = Names(known.organizations | found.organizations, known.keys | found.keys)
        return self._names


def _all_names(streams: Sequence[Owned]) -> Names:
    """Look up names, with the ids of what has been deleted: these are known, too."""
    found = names_of(streams)
    return Names(
        {stream.organization: found.organization(stream) for stream in streams},
        {stream.key: found.key(stream) for stream in streams},
    )
