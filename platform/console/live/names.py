"""What people call the organisations and keys of messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from accounts.models import ApiKey, Organization


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
    """Names that are looked up once: one that changes later is told as it was."""

    def __init__(self) -> None:
        self.organizations: dict[str, str] = {}
        self.keys: dict[str, str] = {}

    def learn(self, streams: Iterable[Owned]) -> None:
        """Look up what is not known yet: in two queries, or in none."""
        new = [s for s in streams if s.organization not in self.organizations or s.key not in self.keys]
        if new:
            found = names_of(new)
            self.organizations |= {stream.organization: found.organization(stream) for stream in new}
            self.keys |= {stream.key: found.key(stream) for stream in new}
