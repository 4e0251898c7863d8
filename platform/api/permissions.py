"""What a key may do."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from api.authentication import caller_of
from common.errors import PermissionDenied


class ScopePermission(BasePermission):
    """Let in keys that have a scope."""

    scope: ClassVar[str]

    def has_permission(self, request: Request, view: APIView) -> bool:
        if self.scope not in caller_of(request).scopes:
            raise PermissionDenied(f"This key lacks the scope {self.scope}.")
        return True


class MaySeeUsage(ScopePermission):
    """Let in keys with the scope `usage`."""

    scope = "usage"
