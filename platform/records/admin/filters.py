"""Filters of long lists: their choices come from indexes and small tables."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db import connection
from django.db.models import Model, QuerySet, Subquery
from django.http import HttpRequest

from accounts.models import ApiKey, Organization
from records.models import RequestRecord

SHOWN = 200  # choices of one filter; search leads to the others

# Jumps from name to name in the index; DISTINCT would walk through all of it.
_NAMES = """
WITH RECURSIVE found(name) AS (
    SELECT min({column}) FROM {table}
    UNION ALL
    SELECT (SELECT min({column}) FROM {table} WHERE {column} > found.name) FROM found WHERE found.name IS NOT NULL
)
SELECT name FROM found WHERE name IS NOT NULL LIMIT {limit}
"""


def names_in(rows: type[Model], column: str) -> list[str]:
    """Return the values that an indexed column has."""
    with connection.cursor() as cursor:
        cursor.execute(_NAMES.format(table=rows._meta.db_table, column=column, limit=SHOWN))
        return [name for (name,) in cursor.fetchall()]


class ExactFilter(admin.SimpleListFilter):
    """Rows with one value of a field; it may be one that is not among the choices."""

    field: ClassVar[str]

    def choices_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        """Return values and what they are called."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = self.choices_for(request)
        value = self.value()
        return found if value is None or value in dict(found) else [*found, (value, value)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(**{self.field: value})


def of_key(queryset: QuerySet[Any], key: str) -> QuerySet[Any]:
    """Return the rows of a key: the index has them below its organisation."""
    owner = ApiKey.objects.filter(pk=key).values("organization")[:1]
    return queryset.filter(key=key, organization=Subquery(owner))


class ModelFilter(ExactFilter):
    """By model, of which there are few."""

    title = "model"
    field = parameter_name = "model"

    def choices_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        return [(name, name) for name in names_in(RequestRecord, "model")]


class OrganizationFilter(ExactFilter):
    """By organisation."""

    title = "organisation"
    field, parameter_name = "organization_id", "organization__id__exact"

    def choices_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        return list(Organization.objects.values_list("id", "name")[:SHOWN])


class KeyFilter(ExactFilter):
    """By key: those of an organisation that was chosen."""

    title = "key"
    parameter_name = "key__id__exact"

    def choices_for(self, request: HttpRequest) -> list[tuple[str, str]]:
        owner = request.GET.get(OrganizationFilter.parameter_name)
        if not (owner or self.value()):
            return []
        keys = ApiKey.objects.filter(organization=owner) if owner else ApiKey.objects.filter(pk=self.value())
        return list(keys.order_by("name").values_list("id", "name")[:SHOWN])

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else of_key(queryset, value)
