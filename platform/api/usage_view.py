"""GET /v1/usage: what the caller's organisation has used, by day, model and key."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import F, Q, QuerySet, Sum
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from accounts.models import ONE_LINE
from api.authentication import caller_of
from api.filters import KEY, MODEL, chosen
from api.openapi.views import described
from api.pages import CURSOR, limit_of, limit_parameter, page_of
from api.parameters import Parameter, a_date, words
from api.permissions import MaySeeUsage
from api.views import StrictView
from common.errors import InvalidRequest
from records.models import DailyUsage

GROUPS = ("day", "model", "key")
USUAL_DAYS, MOST_DAYS = 30, 366
LARGEST_PAGE = 1000
SUMS = ("requests", "input_tokens", "cached_tokens", "output_tokens")
_COLUMNS = {"day": "day", "model": "model", "key": "key_id"}

_DATE = {"type": "string", "format": "date"}
_GROUP_BY = {"type": "array", "items": {"enum": list(GROUPS)}, "minItems": 1, "uniqueItems": True}


class UsageRowSerializer(serializers.Serializer[Any]):
    """What one group comes to; `day`, `model` and `key` are there where `group_by` names them."""

    day = serializers.DateField(required=False)
    model = serializers.CharField(required=False)
    key = serializers.CharField(required=False, help_text="The key's id.")
    requests = serializers.IntegerField(min_value=0)
    input_tokens = serializers.IntegerField(min_value=0, help_text="Of whole prompts, cached or not.")
    cached_tokens = serializers.IntegerField(min_value=0, help_text="Of the input, what the prefix cache had.")
    output_tokens = serializers.IntegerField(min_value=0)


@dataclass(frozen=True, slots=True)
class Span:
    """UTC days, both ends included."""

    start: date
    end: date

    @staticmethod
    def read(query: Mapping[str, str]) -> Span:
        """Read `from` and `to`; raise `InvalidRequest` where they are no span, or too long a one."""
        end = a_date("to", query["to"]) if "to" in query else datetime.now(UTC).date()
        usual = date.fromordinal(max(1, end.toordinal() - USUAL_DAYS + 1))
        start = a_date("from", query["from"]) if "from" in query else usual
        if start > end:
            raise InvalidRequest(f"from: expected a date that is not after {end}.")
        if end - start >= timedelta(days=MOST_DAYS):
            raise InvalidRequest(f"from: expected at most {MOST_DAYS} days up to {end}.")
        return Span(start, end)


class Usage(StrictView[DailyUsage]):
    """Sum up what was used; exact as of the moment of storing."""

    permission_classes = (MaySeeUsage,)
    tag = "Usage"
    parameters = (
        Parameter("from", f"The first UTC day; usually {USUAL_DAYS} days up to `to`, at most {MOST_DAYS}.", _DATE),
        Parameter("to", "The last UTC day, included; usually today.", _DATE),
        Parameter("group_by", "By what to add up, with commas between; usually by all three.", _GROUP_BY),
        MODEL,
        KEY,
        limit_parameter(LARGEST_PAGE, most=LARGEST_PAGE),
        CURSOR,
    )

    @described(
        "listUsage",
        "List usage",
        "What the key's organisation used, from records that are kept exact as requests end, the newest day first. "
        "Needs the scope `usage`.",
        answer=page_of(UsageRowSerializer),
        example={
            "results": [
                {
                    "day": "2026-01-31",
                    "model": "SmolLM2-135M-Instruct",
                    "key": "key_0190f3a1b2c34d5e6f708192a3b4c5d6",
                    "requests": 3,
                    "input_tokens": 108,
                    "cached_tokens": 72,
                    "output_tokens": 21,
                }
            ],
            "next": None,
        },
    )
    def get(self, request: Request) -> Response:
        query = self.query
        span = Span.read(query)
        groups = words("group_by", query["group_by"], known=GROUPS) if "group_by" in query else list(GROUPS)
        groups.sort(key=GROUPS.index)
        limit = limit_of(query, usually=LARGEST_PAGE, most=LARGEST_PAGE)
        organization = caller_of(request).organization
        rows = summed(
            DailyUsage.objects.filter(
                organization_id=organization, day__range=(span.start, span.end), **chosen(query, organization)
            ),
            groups,
        )
        if "cursor" in query:
            rows = rows.filter(_after(groups, _read_cursor(query["cursor"], groups)))
        found = list(rows[: limit + 1])
        page = [{name: row[_COLUMNS.get(name, f"sum_{name}")] for name in (*groups, *SUMS)} for row in found[:limit]]
        link = self._next(span, groups, page[-1]) if len(found) > limit else None
        return Response({"results": UsageRowSerializer(page, many=True).data, "next": link})

    def _next(self, span: Span, groups: Sequence[str], last: Mapping[str, Any]) -> str:
        link = self.request.build_absolute_uri()
        # With its days, so that the pages belong together also when a new day begins between them.
        told = {"from": str(span.start), "to": str(span.end), "cursor": _cursor(groups, last)}
        for name, value in told.items():
            link = replace_query_param(link, name, value)
        return link


def summed(rows: QuerySet[DailyUsage], groups: Sequence[str]) -> QuerySet[DailyUsage, dict[str, Any]]:
    """Add up rows by groups, the newest day first."""
    columns = [_COLUMNS[group] for group in groups]
    order = [F(column).desc() if column == "day" else F(column).asc() for column in columns]
    sums = {f"sum_{name}": Sum(name) for name in SUMS}
    found: QuerySet[DailyUsage, dict[str, Any]] = rows.exclude(requests=0).values(*columns).annotate(**sums)
    return found.order_by(*order)


def _after(groups: Sequence[str], last: Sequence[Any]) -> Q:
    """Return what comes after a row in the order of `summed`."""
    after, same = Q(), Q()
    for group, value in zip(groups, last, strict=True):
        beyond = "lt" if group == "day" else "gt"
        after |= same & Q(**{f"{_COLUMNS[group]}__{beyond}": value})
        same &= Q(**{_COLUMNS[group]: value})
    return after


def _cursor(groups: Sequence[str], last: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps([str(last[group]) for group in groups]).encode()).decode()


def _read_cursor(text: str, groups: Sequence[str]) -> list[Any]:
    try:
        last = json.loads(urlsafe_b64decode(text.encode("ascii")))
    except (ValueError, RecursionError):
        last = None
    fits = isinstance(last, list) and len(last) == len(groups)
    if not fits or not all(isinstance(value, str) and ONE_LINE.fullmatch(value) for value in last):
        raise InvalidRequest("cursor: expected one from the `next` of a page, with the same `group_by`.")
    return [a_date("cursor", value) if group == "day" else value for group, value in zip(groups, last, strict=True)]
