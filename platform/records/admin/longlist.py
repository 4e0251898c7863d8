"""A list whose pages take the same time however long it is."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property

from common.links import LinkingAdmin, page_of
from records.admin.dates import DateLinks
from records.admin.export import CsvResponse

COUNTED = 10_000  # rows; those beyond are reached by dates and filters, not by turning pages

M = TypeVar("M", bound=Model)


class BoundedPaginator(Paginator[Any]):
    """Counts no further than `COUNTED`."""

    @cached_property
    def _found(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[: COUNTED + 1].count()

    @property
    def there_are_more(self) -> bool:
        return self._found > COUNTED

    @cached_property
    def count(self) -> int:
        return min(self._found, COUNTED)


class LongChangeList(ChangeList):
    """Rows by time, the newest first or the oldest; nothing else has an index for all of them."""

    date_hierarchy: str

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        moment = self.date_hierarchy
        oldest_first = super().get_ordering(request, queryset)[0] == moment
        return [moment, "pk"] if oldest_first else [f"-{moment}", "-pk"]

    def get_filters(self, request: HttpRequest) -> Any:
        asked = self.get_filters_params()
        if f"{self.date_hierarchy}__year" not in asked and asked.keys() & set(self.dates.names):
            raise IncorrectLookupParameters("a month or day without its year")
        try:
            return super().get_filters(request)
        except (ValueError, OverflowError) as error:  # there is no such day
            raise IncorrectLookupParameters(error) from error

    def get_results(self, request: HttpRequest) -> None:
        try:
            super().get_results(request)
        except IncorrectLookupParameters:
            messages.info(request, "There is no such page, so this is the last. Dates and filters lead further back.")
            paginator = self.model_admin.get_paginator(request, self.queryset, self.list_per_page)
            self.page_num = paginator.num_pages
            super().get_results(request)
        self.full_result_count = self.result_count  # so that it is told once, below the list

    @cached_property
    def dates(self) -> DateLinks:
        """The way to a year, a month, a day."""
        return DateLinks(self.date_hierarchy, self.params, self.get_query_string)

    def date_links(self) -> dict[str, Any]:
        moments = self.root_queryset.order_by(self.date_hierarchy).values_list(self.date_hierarchy, flat=True)
        return self.dates.shown(moments.first(), moments.last())


class LongListAdmin(LinkingAdmin[M]):
    """Shows rows, the newest first, and exports them; they are not changed by hand."""

    lookups: ClassVar[frozenset[str]]  # what may be filtered by: there are indexes for it
    export_columns: ClassVar[tuple[str, ...]]
    export_name: ClassVar[str]
    date_hierarchy: ClassVar[str]

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/records/change_list.html"
    actions = None

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LongChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        return super().get_queryset(request).select_related("organization", "key")

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        moment = self.date_hierarchy
        times = {f"{moment}__{what}" for what in ("year", "month", "day", "gte", "lt")}
        return lookup in self.lookups | times

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        export = reverse(f"{self.admin_site.name}:{self._export_url}", current_app=self.admin_site.name)
        more = {"export_url": f"{export}?{request.GET.urlencode()}", "is_nav_sidebar_enabled": False}
        return super().changelist_view(request, (extra_context or {}) | more)

    def get_urls(self) -> list[URLPattern]:
        export = path("export/", self.admin_site.admin_view(self.export), name=self._export_url)
        return [export, *super().get_urls()]

    def export(self, request: HttpRequest) -> HttpResponseBase:
        """Answer with all rows that the list's filters let through, as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect("..")
        return CsvResponse(self.export_name, rows, self.export_columns, moment=self.date_hierarchy)

    @property
    def _export_url(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_export"

    @admin.display(description="organisation")
    def owner(self, row: Any) -> str:
        return page_of(self.seen_in, row.organization, row.organization or row.organization_id)

    @admin.display(description="key")
    def key_name(self, row: Any) -> str:
        return page_of(self.seen_in, row.key, row.key.name if row.key else row.key_id)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False
