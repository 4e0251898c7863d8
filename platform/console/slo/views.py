"""The pages of SLOs and of latency."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.pages import page, staff_page
from console.slo.charts import Chart
from console.slo.dashboard import Dashboard
from console.slo.filters import Asked, Filters
from console.slo.lights import lights_of
from console.slo.stages import shares_of, stage_charts
from records.slowest import slowest_of
from slo.look import look
from slo.picture import Picture
from slo.windows import Window

REFRESH_S = 60
REFRESHED_S = 6 * 3600  # longer windows hardly change in that time


@staff_page("console.view_slo")
@require_safe
def show_slo(request: HttpRequest) -> HttpResponseBase:
    """Show how the platform does by its objectives."""
    filters = Filters(request.GET)
    if not filters.is_valid():
        return _refusal(request, filters, "Service level objectives")
    picture = _picture(filters.asked)
    sections = Dashboard(picture).sections()
    return page(
        request,
        "console/slo/dashboard.html",
        title="Service level objectives",
        lights=lights_of(picture.objectives),
        sections=sections,
        **_common(filters, (chart for section in sections for chart in section.charts)),
    )


@staff_page("console.view_slo")
@require_safe
def show_latency(request: HttpRequest) -> HttpResponseBase:
    """Show where the latency hides."""
    filters = Filters(request.GET)
    if not filters.is_valid():
        return _refusal(request, filters, "Where the latency hides")
    asked = filters.asked
    picture = _picture(asked)
    charts = stage_charts(picture)
    return page(
        request,
        "console/slo/latency.html",
        title="Where the latency hides",
        charts=charts,
        shares=shares_of(picture),
        slowest=slowest_of(picture.starts[0], model=asked.model, organization=asked.organization),
        **_common(filters, charts),
    )


def _picture(asked: Asked) -> Picture:
    return look(asked.window, model=asked.model, organization=asked.organization)


def _common(filters: Filters, charts: Iterable[Chart]) -> dict[str, Any]:
    """Return what both pages show."""
    return {
        "filters": filters,
        "data": [chart.data() for chart in charts],
        "updated": timezone.now(),
        "refresh_s": _refresh_s(filters.asked.window),
    }


def _refresh_s(window: Window) -> int:
    return REFRESH_S if window.seconds <= REFRESHED_S else 0


def _refusal(request: HttpRequest, filters: Filters, title: str) -> HttpResponseBase:
    response = page(request, "console/slo/frame.html", title=title, filters=filters)
    response.status_code = 400
    return response
