"""Letting go of triggers: of their texts as soon as their policy said, of all as of records."""

from __future__ import annotations

from datetime import datetime
from math import inf

from django.db.models import QuerySet
from django.utils import timezone

from records.pruning import delete_oldest
from records.triggers import SafetyTrigger


def clear_texts() -> int:
    """Clear the texts that may be kept no longer; return how many."""
    over = SafetyTrigger.objects.filter(text_until__lte=timezone.now())
    return over.update(text="", text_until=None)


def triggers_before(moment: datetime) -> QuerySet[SafetyTrigger]:
    """Return what was found before a moment."""
    return SafetyTrigger.objects.filter(found_at__lt=moment)


def prune_triggers(before: datetime, *, for_s: float = inf) -> int:
    """Delete what was found before a moment, the oldest first, as `records.pruning.prune` does; return how many."""
    return delete_oldest(triggers_before(before), "found_at", for_s=for_s)
