"""What people call the organisations and keys of messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accounts.models import ApiKey, Organization
from console.live.streams import LiveStream


@dataclass(frozen=True, slots=True)
class Names:
    """Names by id."""

    organizations: dict[str, str]
    keys: dict[str, str]

    def organization(self, stream: LiveStream) -> str:
        """Return an organisation's name, its id where it has been deleted."""
        return self.organizations.get(stream.organization, stream.organization)

    def key(self, stream: LiveStream) -> str:
        """Return a key's name, its id where it has been deleted."""
        return self.keys.get(stream.key, stream.key)


def names_of(streams: Iterable[LiveStream]) -> Names:
    """Look the names up, in two queries."""
    streams = list(streams)
    organizations = Organization.objects.in_bulk({stream.organization for stream in streams})
    keys = ApiKey.objects.in_bulk({stream.key for stream in streams})
    return Names(
        {str(id): found.name for id, found in organizations.items()}, {str(id): key.name for id, key in keys.items()}
    )
