from __future__ import annotations

import asyncio
import gc
import json
import threading

import pytest
from channels.testing import HttpCommunicator
from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from django.urls import path

from config.handler import Handler


async def test_a_request_that_cannot_be_read_is_refused_in_our_form() -> None:
    communicator = HttpCommunicator(Handler(), "GET", "/v1/requests")
    communicator.scope["query_string"] = b"limit=\xff"
    answer = await communicator.get_response(timeout=20)
    await communicator.wait(timeout=20)
    body = json.loads(answer["body"])
    assert (answer["status"], body["error"]["type"]) == (400, "invalid_request_error")
    assert dict(answer["headers"])[b"request-id"] == body["request_id"].encode()


class Slow:
    """A view that takes as long as a test wants, and what happened to it, in which thread."""

    def __init__(self) -> None:
        self.begun, self.may_end, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.seen: list[tuple[str, int]] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.seen.append(("begun", threading.get_ident()))
        self.begun.set()
        self.may_end.wait(20)
        return HttpResponse()

    def finished(self, **_: object) -> None:
        self.seen.append(("closed", threading.get_ident()))
        self.closed.set()


slow = Slow()
urlpatterns = [path("slow", slow)]


@pytest.mark.urls(__name__)
@pytest.mark.filterwarnings("ignore:.*SpooledTemporaryFile")  # Django leaves the body's file to the collector
async def test_one_that_is_ended_in_the_middle_gives_its_connection_back() -> None:
    request_finished.connect(slow.finished)
    try:
        communicator = HttpCommunicator(Handler(), "GET", "/slow", headers=[(b"host", b"localhost")])
        await communicator.send_input({"type": "http.request"})
        assert await asyncio.to_thread(slow.begun.wait, 20)
        communicator.future.cancel()  # as the server does, however long the view takes
        await asyncio.sleep(0.01)
        communicator.future.cancel()
        slow.may_end.set()
        assert await asyncio.to_thread(slow.closed.wait, 20)
        await asyncio.wait([communicator.future], timeout=20)
        del communicator
        gc.collect()
    finally:
        request_finished.disconnect(slow.finished)
    assert [what for what, _ in slow.seen] == ["begun", "closed"]
    assert len({thread for _, thread in slow.seen}) == 1, "connections belong to threads"
