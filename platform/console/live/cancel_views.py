"""The page that asks before streams are cancelled, and what does it."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from common.redis import connection
from console import audit
from console.live.cancelling import Asked, ask_all, look_up
from console.live.log import wait_for_end
from console.live.names import names_of
from console.live.streams import find_streams
from console.live.views import AT_ONCE, CANCEL, while_redis_answers
from console.pages import page, staff_page

SHOWN = 20
PATIENCE_S = 1.0  # for the end of a stream that is cancelled alone


@staff_page(CANCEL)
@require_POST
@while_redis_answers
def cancel_streams(request: HttpRequest) -> HttpResponseBase:
    """Ask whether streams are meant to be cancelled; once that is confirmed, do it."""
    only = request.POST.get("only")  # the button of one stream, whatever else is selected
    message_ids = list(dict.fromkeys([only] if only else request.POST.getlist("message")))[:AT_ONCE]
    if not message_ids:
        messages.warning(request, "No stream was selected.")
        return redirect("console:streams")
    if request.POST.get("confirmed") != "yes":
        return _confirm(request, message_ids)
    found = look_up(connection(), message_ids)
    _note(request, [one for one in found if one.answer == "asked"])  # first: nothing is done without a trace
    answers = ask_all(connection(), found)
    if len(answers) > 1:
        _tell_of_all(request, answers)
        return redirect("console:streams")
    (asked,) = answers
    _tell_of_one(request, asked)
    return redirect("console:streams") if asked.answer == "unknown" else redirect("console:streams-one", asked.id)


def _confirm(request: HttpRequest, message_ids: Sequence[str]) -> HttpResponseBase:
    found = find_streams(connection(), message_ids[:SHOWN])
    names = names_of(found)
    known = {stream.id: f"{names.organization(stream)}, key {names.key(stream)}" for stream in found}
    title = f"Cancel {message_ids[0]}?" if len(message_ids) == 1 else f"Cancel {len(message_ids):,} streams?"
    return page(
        request, "console/streams/cancel.html", title=title, message_ids=message_ids,
        lines=[(id, known.get(id, "has ended")) for id in message_ids[:SHOWN]], others=len(message_ids) - SHOWN,
    )  # fmt: skip


def _note(request: HttpRequest, asked: Sequence[Asked]) -> None:
    names = names_of(asked)
    about = {one.id: f"Cancelled the stream, of {names.organization(one)}, key {names.key(one)}." for one in asked}
    audit.note(request, about)


def _tell_of_one(request: HttpRequest, asked: Asked) -> None:
    if asked.answer == "unknown":
        messages.warning(request, f"The stream {asked.id} has ended, and nothing of it is left to cancel.")
    elif asked.answer == "ended":
        messages.info(request, f"The stream {asked.id} had ended before: {asked.outcome}.")
    elif asked.answer == "asked before":
        messages.info(request, f"The stream {asked.id} was asked to end before ({asked.outcome}).")
    elif (now := wait_for_end(connection(), asked.id, patience_s=PATIENCE_S)).outcome:
        messages.success(request, f"The stream {asked.id} has ended: {now.outcome}.")
    else:
        messages.success(request, f"The stream {asked.id} is asked to end. Whoever has it ends it shortly.")


def _tell_of_all(request: HttpRequest, answers: Sequence[Asked]) -> None:
    def count(*wanted: str) -> int:
        return sum(asked.answer in wanted for asked in answers)

    if asked := count("asked"):
        messages.success(request, f"{asked:,} streams are asked to end." if asked > 1 else "1 stream is asked to end.")
    if before := count("asked before"):
        messages.info(request, f"{before:,} had been asked before.")
    if ended := count("ended", "unknown"):
        messages.info(request, f"{ended:,} had ended before.")
