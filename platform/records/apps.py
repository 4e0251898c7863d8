"""Records' configuration."""

from django.apps import AppConfig


class RecordsConfig(AppConfig):
    """Request records."""

    name = "records"
