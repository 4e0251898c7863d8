"""Safety's configuration."""

from django.apps import AppConfig


class SafetyConfig(AppConfig):
    """Safety policies."""

    name = "safety"

    def ready(self) -> None:
        from safety import signals  # once the models are there

        signals.watch(self)
