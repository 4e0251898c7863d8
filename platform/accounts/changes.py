"""Telling every gateway that a key or an organisation changed, so that what it remembers of them goes at once.

The changes are a stream in Redis that each gateway follows from where it stands (`streaming.changes`).
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_save
from redis.exceptions import RedisError

from accounts.cache import CALLERS, CHECK_S
from accounts.models import ApiKey, Organization
from common.redis import connection

STREAM = "sluice:accounts:changes"  # entries: `o` the organisation's id, `k` the key's or "" for all of its keys
KEPT_S = 3600  # longer than a gateway keeps a copy of a caller (`streaming.copies`)

logger = logging.getLogger(__name__)


def announce(organization: str, key: str = "") -> None:
    """Tell of a change of a key, or of an organisation and so of all its keys, once it is committed."""
    CALLERS.forget(organization, key)
    transaction.on_commit(partial(_tell, organization, key))


def watch() -> None:
    """Announce whatever is saved as a whole; who updates rows otherwise announces it."""
    post_save.connect(_saved, sender=ApiKey, dispatch_uid="announce keys")
    post_save.connect(_saved, sender=Organization, dispatch_uid="announce organisations")


def _saved(sender: Any, instance: ApiKey | Organization, created: bool, **_: Any) -> None:
    if created:
        return  # nobody can remember it
    if isinstance(instance, ApiKey):
        announce(instance.organization_id, instance.pk)
    else:
        announce(instance.pk)


def _tell(organization: str, key: str) -> None:
    CALLERS.forget(organization, key)
    oldest = int((time.time() - KEPT_S) * 1000)
    try:
        connection().xadd(STREAM, {"o": organization, "k": key}, minid=oldest)
    except (RedisError, OSError) as error:
        logger.warning("gateways cannot be told of a change, but look for themselves in %.0f s: %s", CHECK_S, error)
