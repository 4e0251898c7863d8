"""Makes `config` an app, so that the server's own commands have a home."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig
from django.core.checks import CheckMessage, Warning, register

from inference.protocol.settings import unknown_variables


class ConfigConfig(AppConfig):
    """The project itself as an app."""

    name = "config"

    def ready(self) -> None:
        register(check_variables, "sluice")


class AdminConfig(DjangoAdminConfig):
    """Django's admin, on our site."""

    default_site = "console.site.Site"


def check_variables(**kwargs: Any) -> list[CheckMessage]:
    """Warn of environment variables that look like ours and set nothing."""
    return [
        Warning(f"{name} is set, but there is no such setting.", hint="The README lists all.", id="sluice.W001")
        for name in unknown_variables()
    ]
