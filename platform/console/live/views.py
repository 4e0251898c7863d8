"""The pages of active streams: the list of them, and one stream."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import redis
from django.http import Http404, HttpRequest, HttpResponseBase, QueryDict
from django.views.decorators.http import require_safe

from accounts.models import ApiKey, Organization
from common.redis import connection
from console.live.listing import COLUMNS, FILTERS, PAGE, Listing, Wish, listing, places, wish_of
from console.live.maker import MOST
from console.live.names import NameBook
from console.live.rows import STATES, Row, percent, rows_of
from console.live.shown import BLANK, ShownRow, age_text, ms_text, shown_row, state_text
from console.live.story import story_of
from console.live.streams import LiveStream, find_stream, picture, place_in_queue
from console.pages import page, staff_page
from records.models import RequestRecord

VIEW, CANCEL = "console.view_streams", "console.cancel_streams"
TITLE = "Active streams"
REFRESH_S = 2
AT_ONCE = 900  # that may be cancelled together: Django takes no more than 1000 fields of a form

View = Callable[..., HttpResponseBase]


def while_redis_answers(view: View) -> View:
    """Say so on the page where Redis does not answer."""

    @functools.wraps(view)
    def told(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except (redis.RedisError, OSError) as error:
            problem = " ".join(str(error).split())
            return page(request, "console/streams/away.html", title=TITLE, problem=problem)

    return told


@staff_page(VIEW)
@require_safe
@while_redis_answers
def show_streams(request: HttpRequest) -> HttpResponseBase:
    """Show what waits and runs, as it is now; a script keeps the page up to date."""
    now = picture(connection(), most=MOST)
    wish = wish_of(request.GET.dict())
    rows = rows_of(now.streams, NameBook())
    found, line = listing(rows, wish, now.at_ms), places(rows)

    def shown(row: Row) -> ShownRow:
        place = line.get(row.id)
        return shown_row(row, now.at_ms, (place, now.queues[row.model]) if place else None)

    return page(
        request, "console/streams/list.html", title=TITLE, wish=wish, found=found, total=now.total, most=MOST,
        rows=[shown(row) for row in found.rows], filters=_filters(wish, found),
        heads=_heads(request.GET, wish), links=_page_links(request.GET, found), states=STATES,
        page_size=PAGE, most_cancelled=AT_ONCE, blank=BLANK,
        may_cancel=request.user.has_perm(CANCEL),
    )  # fmt: skip


@staff_page(VIEW)
@require_safe
@while_redis_answers
def show_stream(request: HttpRequest, message_id: str) -> HttpResponseBase:
    """Show all that is known of one stream: once its log is gone, where its record is."""
    stream = find_stream(connection(), message_id)
    record = RequestRecord.objects.filter(pk=message_id).first()
    if stream is None and record is None:
        raise Http404(f"There is no stream {message_id}, or nothing is known of it any more.")
    return page(
        request, "console/streams/stream.html", title=message_id, id=message_id, stream=stream,
        has_record=record is not None, refresh_s=REFRESH_S, may_cancel=request.user.has_perm(CANCEL),
        **(_about(stream, record) if stream else {}),
    )  # fmt: skip


def _about(stream: LiveStream, record: RequestRecord | None) -> dict[str, Any]:
    """Return what the page of a stream says of it: numbers in words, what it belongs to, what happened.

    TTFT is as everywhere up to the first token that was written, once its record tells that.
    """
    written_ms = record.ttft_ms if record else None
    released_ms = None if stream.ttft_s is None else stream.ttft_s * 1000
    ttft_ms = released_ms if written_ms is None else written_ms
    return {
        "state": stream.outcome if stream.state == "ended" else _state_text(stream),
        "organization": Organization.objects.filter(pk=stream.organization).first(),
        "key": ApiKey.objects.filter(pk=stream.key).first(),
        "numbers": [
            ("Tokens", f"{stream.output_tokens:,}"),
            ("Tokens/s", f"{stream.tokens_per_s:,.1f}" if stream.tokens_per_s else ""),
            ("TTFT", "" if ttft_ms is None else ms_text(ttft_ms)),
            ("Age" if stream.state != "ended" else "Took", age_text(stream.age_s)),
            ("Readers", f"{stream.readers:,}"),
            ("Buffer", f"{stream.unsent:,}"),
        ],
        "story": story_of(connection(), stream, written_ms),
    }


def _state_text(stream: LiveStream) -> str:
    place = place_in_queue(connection(), stream) if stream.state == "queued" else None
    return state_text(stream.state, held=stream.held_tokens, prefilled=percent(stream.prefilled), place=place)


def _heads(query: QueryDict, wish: Wish) -> list[dict[str, Any]]:
    """Return the columns' heads: where each leads, and how the table is sorted by it now."""
    heads = []
    for column in COLUMNS:
        now = {column.name: "ascending", f"-{column.name}": "descending"}.get(wish.sort, "")
        next_sort = f"-{column.name}" if now == "ascending" or (column.number and not now) else column.name
        heads.append({"column": column, "sorted": now, "href": _with(query, o=next_sort)})
    return heads


def _filters(wish: Wish, found: Listing) -> list[dict[str, Any]]:
    labels = {column.name: column.label for column in COLUMNS}
    return [
        {
            "name": name,
            "label": labels[name],
            "chosen": wish.filters[name],
            "options": [(value, STATES.get(value, value)) for value in found.options[name]],
        }
        for name in FILTERS
    ]


def _page_links(query: QueryDict, found: Listing) -> dict[str, str]:
    """Return where the pages before and after this one are."""
    links = {}
    if found.page > 1:
        links["before"] = _with(query, page=str(found.page - 1))
    if found.page < found.pages:
        links["after"] = _with(query, page=str(found.page + 1))
    return links


def _with(query: QueryDict, **changes: str) -> str:
    """Return a query with other values; a new order begins on the first page."""
    changed = query.copy()
    changed.pop("page", None)
    for name, value in changes.items():
        changed[name] = value
    return f"?{changed.urlencode()}"
