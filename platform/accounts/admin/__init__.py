"""Organisations and keys in the admin: for operators, and within an organisation for its members."""

from accounts.admin.keys import ApiKeyAdmin
from accounts.admin.organizations import OrganizationAdmin

__all__ = ["ApiKeyAdmin", "OrganizationAdmin"]
