"""The page of safety triggers: how many over time, of what, and the last ones."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.pages import page, staff_page
from records.models import RequestRecord
from records.rates import OTHERS, Chart, Span, chart_of
from records.triggers import SafetyTrigger

WINDOWS = {"24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
USUAL = "7d"
LAST = 25  # triggers

_LIST = "admin:records_safetytrigger_changelist"
# Lists that belong to it: name, URL, permission.
_LISTS = (
    ("All triggers", _LIST, "records.view_safetytrigger"),
    ("Policies", "admin:safety_safetypolicy_changelist", "safety.view_safetypolicy"),
    ("Blocklists", "admin:safety_blocklist_changelist", "safety.view_blocklist"),
)


@staff_page("records.view_safetytrigger")
@require_safe
def show_safety(request: HttpRequest) -> HttpResponseBase:
    """Show safety triggers over a time, and what leads on from there."""
    window = request.GET.get("window", "")
    window = window if window in WINDOWS else USUAL
    now = timezone.now()
    since = now - WINDOWS[window]
    triggers = SafetyTrigger.objects.all()
    chart = chart_of(triggers, Span.between(since, now))
    return page(
        request,
        "console/safety/page.html",
        title="Safety",
        windows=WINDOWS,
        window=window,
        chart=chart,
        categories=_categories(chart, since),
        last=[(row, RequestRecord(pk=row.record_id)) for row in triggers.select_related("organization", "key")[:LAST]],
        lists=[(name, reverse(url)) for name, url, needs in _LISTS if request.user.has_perm(needs)],
    )


def _categories(chart: Chart, since: datetime) -> list[tuple[str, int, float, str]]:
    """Return each category: its name, number, share in percent, and the list of its triggers."""
    begin = {"found_at__gte": f"{since:%Y-%m-%d %H:%M:%S}+00:00"}
    return [
        (name, number, 100 * number / chart.total,
         f"{reverse(_LIST)}?{urlencode(begin if name == OTHERS else {'category': name} | begin)}")
        for name, number in chart.legend
    ]  # fmt: skip
