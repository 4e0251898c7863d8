"""What staff do in the console, in the admin's log: it is on the index page of whoever did it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest

from console.models import Console

NAME_LIMIT = 200


def note(request: HttpRequest, what_by_id: Mapping[str, str]) -> None:
    """Log what the user does to streams or processes, by their ids; all or nothing, in one statement."""
    LogEntry.objects.bulk_create(
        LogEntry(
            user=cast(User, request.user),
            content_type=ContentType.objects.get_for_model(Console),
            object_id=about,
            object_repr=about[:NAME_LIMIT],
            action_flag=CHANGE,
            change_message=what,
        )
        for about, what in what_by_id.items()
    )
