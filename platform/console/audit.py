"""What staff do in the console, in the admin's log: it is on the index page of whoever did it."""

from __future__ import annotations

from typing import cast

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest

from console.models import Console

NAME_LIMIT = 200


def note(request: HttpRequest, *, about: str, what: str) -> None:
    """Log that the user did something to a stream or a process, by its id."""
    LogEntry.objects.create(
        user=cast(User, request.user),
        content_type=ContentType.objects.get_for_model(Console),
        object_id=about,
        object_repr=about[:NAME_LIMIT],
        action_flag=CHANGE,
        change_message=what,
    )
