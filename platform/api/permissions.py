"""What a key may do."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts.terms import Scope
from api.authentication import caller_of


class ScopePermission(BasePermission):
    """Let in keys that have a scope."""

    scope: ClassVar[Scope]

    def has_permission(self, request: Request, view: APIView) -> bool:
        caller_of(request).check(needs=self.scope)
        return True


class MayInfer(ScopePermission):
    """Let in keys with the scope `inference`."""

    scope = "inference"


class MaySeeUsage(ScopePermission):
    """Let in keys with the scope `usage`."""

    scope = "usage"


class MayManageKeys(ScopePermission):
    """Let in keys with the scope `admin`."""

    scope = "admin"
