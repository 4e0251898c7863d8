from __future__ import annotations

import json

from channels.testing import HttpCommunicator

from config.handler import Handler


async def test_a_request_that_cannot_be_read_is_refused_in_our_form() -> None:
    communicator = HttpCommunicator(Handler(), "GET", "/v1/requests")
    communicator.scope["query_string"] = b"limit=\xff"
    answer = await communicator.get_response(timeout=20)
    await communicator.wait(timeout=20)
    body = json.loads(answer["body"])
    assert (answer["status"], body["error"]["type"]) == (400, "invalid_request_error")
    assert dict(answer["headers"])[b"request-id"] == body["request_id"].encode()
