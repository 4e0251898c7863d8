"""The query parameters that choose records, as /v1/requests and /v1/usage share them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from django.db.models import Q

from accounts.models import ONE_LINE, ApiKey
from accounts.terms import MODEL_NAME_LIMIT
from api.parameters import Parameter, a_date_or_time, words
from common.errors import InvalidRequest
from inference.protocol.outcomes import OUTCOMES

MODEL = Parameter("model", "Only of this model.", {"type": "string", "minLength": 1, "maxLength": MODEL_NAME_LIMIT})
KEY = Parameter("key", "Only of this key: its id, or its visible prefix.", {"type": "string", "minLength": 1})
OUTCOME = Parameter(
    "outcome",
    "Only those that ended so; several with commas between them.",
    {"type": "array", "items": {"enum": list(OUTCOMES)}, "minItems": 1, "uniqueItems": True},
)
_MOMENT = {"anyOf": [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}]}
FROM = Parameter("from", "Not before this UTC date, or this time.", _MOMENT)
TO = Parameter("to", "Not after this UTC date, or this time; of a date the whole day counts.", _MOMENT)


def chosen(query: Mapping[str, str], organization: str) -> dict[str, Any]:
    """Return the filters that `model` and `key` ask for; raise `InvalidRequest` for what is neither."""
    found: dict[str, Any] = {}
    if "model" in query:
        found["model"] = _model(query["model"])
    if "key" in query:
        found["key_id"] = _key(query["key"], organization)
    return found


def chosen_records(query: Mapping[str, str], organization: str) -> dict[str, Any]:
    """Return the filters that all parameters ask for; raise `InvalidRequest` naming the one that will not do."""
    found = chosen(query, organization)
    if "outcome" in query:
        found["outcome__in"] = words("outcome", query["outcome"], known=OUTCOMES)
    if "from" in query:
        found["created_at__gte"] = _moment(a_date_or_time("from", query["from"]), time.min)
    if "to" in query:
        found["created_at__lte"] = _moment(a_date_or_time("to", query["to"]), time.max)
    if "from" in query and "to" in query and found["created_at__lte"] < found["created_at__gte"]:
        raise InvalidRequest("to: expected a date or time that is not before `from`.")
    return found


def _model(text: str) -> str:
    if not (0 < len(text) <= MODEL_NAME_LIMIT and ONE_LINE.fullmatch(text)):
        raise InvalidRequest("model: expected the name of a model.")
    return text


def _key(text: str, organization: str) -> str:
    """Return the id of one of the organisation's keys."""
    names = Q(pk=text) | Q(prefix=text) | Q(old_prefix=text)
    keys = ApiKey.objects.filter(names, organization_id=organization) if ONE_LINE.fullmatch(text) else ()
    for key in keys:
        return key.pk
    raise InvalidRequest("key: expected the id or the visible prefix of a key of this organisation.")


def _moment(given: date | datetime, of_day: time) -> datetime:
    return given if isinstance(given, datetime) else datetime.combine(given, of_day, UTC)
