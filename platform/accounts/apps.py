"""Accounts' configuration."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Organisations and API keys."""

    name = "accounts"
