"""/v1/organization and /v1/organization/keys: what a customer sees of its organisation, and its keys to manage.

A key made or changed here never has more than operators gave the organisation, nor lives longer than the key that made
it. The key that one calls with cannot end itself, nor its own scope `admin`: that takes another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, TypeVar

from django.db.models import QuerySet
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.ceilings import excesses
from accounts.keys import KeyIsOver, issue, revoke, rotate
from accounts.models import ApiKey
from api.authentication import caller_of
from api.key_examples import KEY, NEW_KEY, ORGANIZATION
from api.keys_body import KeySerializer, NewKeySerializer, OrganizationSerializer, RotationSerializer
from api.openapi.views import described
from api.pages import PAGE_PARAMETERS, Pages, page_of
from api.parsing import JsonParser
from api.permissions import MayManageKeys
from api.views import StrictView
from common.errors import Conflict, InvalidRequest

MOST_KEYS = 10_000  # that are not revoked, of one organisation
LEAST_OWN_OVERLAP_S = 60

T = TypeVar("T")
logger = logging.getLogger(__name__)


class OwnKeys(StrictView[ApiKey]):
    """The keys of the caller's organisation, and no others."""

    permission_classes = (MayManageKeys,)
    parser_classes = (JsonParser,)
    serializer_class = KeySerializer
    pagination_class = Pages
    tag = "Keys"
    keeps_secrets = True

    def finalize_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().finalize_response(*args, **kwargs)
        response["cache-control"] = "no-store"
        return response

    def get_queryset(self) -> QuerySet[ApiKey]:
        keys = ApiKey.objects.select_related("organization")
        return keys.filter(organization_id=caller_of(self.request).organization)

    @cached_property
    def own(self) -> ApiKey:
        """The key that calls."""
        return self.get_queryset().get(pk=caller_of(self.request).key)

    def check_given(self, given: Mapping[str, Any]) -> None:
        """Raise `InvalidRequest` for more than there is to give."""
        for field, expected in excesses(self.own.organization, given, until=self.own.expires_at).items():
            raise InvalidRequest(f"{field}: {expected}")

    def log(self, done: str, key: ApiKey) -> None:
        logger.info("key %s of %s %s by key %s", key.pk, key.organization_id, done, self.own.pk)


class OwnOrganization(OwnKeys):
    """The caller's organisation."""

    @described(
        "showOrganization",
        "Get the organisation",
        "What bounds all of its keys, and the limits of all together.",
        answer=OrganizationSerializer,
        example=ORGANIZATION,
    )
    def get(self, request: Request) -> Response:
        return Response(OrganizationSerializer(self.own.organization).data)


class KeyList(ListModelMixin, OwnKeys):
    """List keys, and make them."""

    parameters = PAGE_PARAMETERS

    @described(
        "listKeys",
        "List keys",
        "Those of the organisation, the newest first, without their secrets.",
        answer=page_of(KeySerializer),
        example={"results": [KEY], "next": None},
    )
    def get(self, request: Request) -> Response:
        return self.list(request)

    @described(
        "createKey",
        "Create a key",
        "It never has more than operators gave the organisation, nor lives longer than the key that makes it.",
        answer=NewKeySerializer,
        example=NEW_KEY,
        status=201,
        request=KeySerializer,
        request_example={"name": "nightly reports", "scopes": ["inference"], "rpm": 60, "priority": "batch"},
    )
    def post(self, request: Request) -> Response:
        body = KeySerializer(data=request.data)
        body.is_valid(raise_exception=True)
        usual = {"scopes": self.own.organization.usual_scopes, "expires_at": self.own.expires_at}
        given = usual | body.validated_data
        self.check_given(given)
        if self.get_queryset().filter(revoked_at=None).count() >= MOST_KEYS:
            raise Conflict(f"The organisation has {MOST_KEYS} keys. Revoke some.")
        key = ApiKey(organization=self.own.organization, **given)
        plain = issue(key)
        self.log("made", key)
        return Response(told(key, plain), status=201)


class KeyDetail(RetrieveModelMixin, OwnKeys):
    """Show a key, change it, end it."""

    @described("showKey", "Get a key", "One key, without its secret.", answer=KeySerializer, example=KEY)
    def get(self, request: Request, pk: str) -> Response:
        return self.retrieve(request, pk=pk)

    @described(
        "updateKey",
        "Change a key",
        "Changes the fields that are given. The key that one calls with cannot lock itself out.",
        answer=KeySerializer,
        example=KEY,
        request=KeySerializer,
        request_example={"rpm": 60, "expires_at": "2035-01-31T12:00:00Z"},
    )
    def patch(self, request: Request, pk: str) -> Response:
        key = self.get_object()
        body = KeySerializer(key, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        self.check_given(given)
        if key.revoked_at is not None:
            raise Conflict("This key is revoked: it cannot be changed any more.")
        if key == self.own:
            _keep_alive(key, given)
        for field, value in given.items():
            setattr(key, field, value)
        if given:
            key.save(update_fields=list(given))
            self.log(f"changed ({', '.join(given)})", key)
        return Response(told(key))

    @described(
        "revokeKey",
        "Revoke a key",
        "Every gateway refuses it within a second. Revoking it again changes nothing.",
        answer=KeySerializer,
        example=KEY | {"state": "revoked", "revoked_at": "2026-02-01T12:00:00Z"},
    )
    def delete(self, request: Request, pk: str) -> Response:
        key = self.get_object()
        if key == self.own:
            raise Conflict("This is the key that you call with. Revoke it with another one of the scope admin.")
        if key.revoked_at is None:
            _unless_over(partial(revoke, key))
            self.log("revoked", key)
        return Response(told(key))


class KeyRotation(OwnKeys):
    """Rotate a key."""

    @described(
        "rotateKey",
        "Rotate a key",
        "A new secret for the same key; the present one works on for a while.",
        answer=NewKeySerializer,
        example=NEW_KEY,
        request=RotationSerializer,
        request_example={"overlap_s": 3600},
    )
    def post(self, request: Request, pk: str) -> Response:
        key = self.get_object()
        body = RotationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        overlap_s = body.validated_data["overlap_s"]
        if key == self.own:
            _survive(key, overlap_s)
        plain = _unless_over(partial(rotate, key, overlap=timedelta(seconds=overlap_s)))
        self.log(f"rotated (overlap {overlap_s} s)", key)
        return Response(told(key, plain))


def told(key: ApiKey, plain: str | None = None) -> dict[str, Any]:
    """Return a key as JSON, with `key`, the plain one, where it is new."""
    return {**KeySerializer(key).data} | ({} if plain is None else {"key": plain})


def _keep_alive(key: ApiKey, given: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` for what would lock the caller out."""
    if "admin" not in given.get("scopes", ["admin"]):
        raise InvalidRequest("scopes: this is the key that you call with; take its scope admin with another one.")
    if given.get("expires_at", key.expires_at) != key.expires_at:
        raise InvalidRequest("expires_at: this is the key that you call with; let another one end it.")


def _survive(key: ApiKey, overlap_s: int) -> None:
    """Refuse a rotation after which a caller who missed the answer would be locked out."""
    if overlap_s < LEAST_OWN_OVERLAP_S:
        least = f"expected at least {LEAST_OWN_OVERLAP_S} for the key that you call with"
        raise InvalidRequest(f"overlap_s: {least}: this answer may be lost.")
    if key.overlap is not None:
        raise Conflict(
            f"The last rotation of the key that you call with overlaps until {key.overlap:%Y-%m-%dT%H:%M:%SZ}."
        )


def _unless_over(change: Callable[[], T]) -> T:
    try:
        return change()
    except KeyIsOver as error:
        raise Conflict(str(error)) from None
