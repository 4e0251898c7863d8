"""Accounts' configuration."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Organisations and API keys."""

    name = "accounts"

    def ready(self) -> None:
        from accounts import changes, policy_users  # once the models are there

        changes.watch()
        policy_users.answer()
