"""Batches' configuration."""

from django.apps import AppConfig


class BatchesConfig(AppConfig):
    """Message Batches."""

    name = "batches"
