"""What follows when a policy or a blocklist changes."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import ProtectedError
from django.db.models.signals import m2m_changed, post_delete, post_migrate, post_save, pre_delete

from safety.built_in import keep_built_in
from safety.models import Blocklist, SafetyPolicy, SafetyRule
from safety.publishing import publish


def watch(app_config: Any) -> None:
    """Publish whatever changes, and keep what is built in or in use."""
    for model in (Blocklist, SafetyPolicy, SafetyRule):
        for signal in (post_save, post_delete):
            signal.connect(_changed, sender=model, dispatch_uid=f"publish {model.__name__}")
    m2m_changed.connect(_changed, sender=SafetyPolicy.blocklists.through, dispatch_uid="publish choices")
    pre_delete.connect(_keep, sender=SafetyPolicy, dispatch_uid="keep policies in use")
    post_migrate.connect(keep_built_in, sender=app_config, dispatch_uid="keep built-in policies")


def _changed(**_: Any) -> None:
    transaction.on_commit(publish)


def _keep(instance: SafetyPolicy, **_: Any) -> None:
    if ties := instance.ties():
        raise ProtectedError(ties, {instance})
