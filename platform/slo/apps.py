"""The objectives' configuration."""

from django.apps import AppConfig


class SloConfig(AppConfig):
    """Objectives and what is measured of them."""

    name = "slo"
