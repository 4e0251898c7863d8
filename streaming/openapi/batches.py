"""Message Batches: Django serves them, and their items are bodies that the gateway reads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from api.openapi.common import ERROR_SCHEMAS, WITH_BODY, WITH_KEY, errors, headers, ref
from batches.creating import CUSTOM_ID, MOST_REQUESTS, BatchBody
from common.errors import Gone, NotAcceptable, NotFound, RateLimited
from streaming.openapi import examples
from streaming.openapi.answers import Count, Message, Time
from streaming.openapi.operations import BETA, PAGE, TEXT, answer, body, operation, parameter
from streaming.openapi.structs import schemas_of

Json = dict[str, Any]
BATCHES = "Message Batches"
BATCHES_PATH = "/v1/messages/batches"
BATCH_TAG = {"name": BATCHES, "description": "Many messages at once, when there is room beside interactive ones."}


class RequestCounts(Struct):
    """How many of the requests are in which state."""

    processing: Count
    succeeded: Count
    errored: Count
    canceled: Count
    expired: Count


class MessageBatch(Struct, tag="message_batch", tag_field="type"):
    """A batch and how far it is."""

    id: str
    processing_status: Literal["in_progress", "canceling", "ended"]
    request_counts: RequestCounts
    created_at: Time
    expires_at: Time
    ended_at: Time | None
    cancel_initiated_at: Time | None
    archived_at: Time | None
    results_url: Annotated[str | None, Meta(description="Where the results are, once it has ended.")]


class MessageBatchPage(Struct):
    """Batches, the newest first."""

    data: list[MessageBatch]
    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedMessageBatch(Struct, tag="message_batch_deleted", tag_field="type"):
    """A batch that is gone, its results with it."""

    id: str


class Succeeded(Struct, tag="succeeded", tag_field="type"):
    """The request's message."""

    message: Message


class Errored(Struct, tag="errored", tag_field="type"):
    """The request's error."""

    error: dict[str, Any]


class Canceled(Struct, tag="canceled", tag_field="type"):
    """The batch was cancelled before the request's turn came."""


class Expired(Struct, tag="expired", tag_field="type"):
    """The batch expired before the request's turn came."""


class BatchResult(Struct):
    """One line of the results: what became of one request."""

    custom_id: str
    result: Succeeded | Errored | Canceled | Expired


def _schemas() -> Json:
    found = schemas_of(BatchBody, MessageBatch, MessageBatchPage, DeletedMessageBatch, BatchResult)
    found["BatchRequest"] = request = found.pop("RequestIn")
    request["properties"]["params"] = ref("MessagesBody")  # kept as it came, and read when its turn comes
    request["properties"]["custom_id"] |= {
        "pattern": CUSTOM_ID.replace("\\Z", "$"),
        "description": "What its result is told by.",
    }
    found["BatchBody"]["properties"]["requests"]["items"] = ref("BatchRequest")
    error = ERROR_SCHEMAS["Error"]
    no_request = {"request_id": {"type": "null", "description": "It had no request of its own."}}
    found["Errored"]["properties"]["error"] = error | {"properties": error["properties"] | no_request, "examples": []}
    return found


BATCH_SCHEMAS = _schemas()

_ID = "msgbatch_0190f3a1b2c34d5e6f708192a3b4c5d6"
_BATCH = {
    "id": _ID,
    "type": "message_batch",
    "processing_status": "in_progress",
    "request_counts": {"processing": 2, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
    "created_at": "2026-01-01T00:00:00Z",
    "expires_at": "2026-01-02T00:00:00Z",
    "ended_at": None,
    "cancel_initiated_at": None,
    "archived_at": None,
    "results_url": None,
}
_REQUESTS = {"requests": [{"custom_id": f"question-{n}", "params": examples.MESSAGE} for n in (1, 2)]}
_BATCH_ID = parameter("id", "path", "The batch's id.", required=True, type="string", examples=[_ID])
_ERRORS = errors(*WITH_KEY, NotAcceptable, NotFound)


def _operation(operation_id: str, summary: str, about: str, **more: Any) -> Json:
    return operation(operation_id, summary, about, tag=BATCHES, **more)


BATCH_PATHS: Json = {
    BATCHES_PATH: {
        "post": _operation(
            "createMessageBatch",
            "Create a batch",
            f"Up to {MOST_REQUESTS} messages, run at batch priority: those of interactive requests go first. What is "
            "not done within 24 hours expires.",
            parameters=[BETA],
            requestBody=body("BatchBody", two=("Two messages", _REQUESTS)),
            responses={"200": answer("The batch.", ref("MessageBatch"), _BATCH)},
            errors=errors(*WITH_KEY, *WITH_BODY, NotAcceptable, RateLimited),
        ),
        "get": _operation(
            "listMessageBatches",
            "List batches",
            "The newest first.",
            parameters=[BETA, *PAGE],
            responses={
                "200": answer(
                    "A page of batches.",
                    ref("MessageBatchPage"),
                    {"data": [_BATCH], "has_more": False, "first_id": _ID, "last_id": _ID},
                )
            },
            errors=errors(*WITH_KEY, NotAcceptable),
        ),
    },
    f"{BATCHES_PATH}/{{id}}": {
        "get": _operation(
            "showMessageBatch",
            "Get a batch",
            "Says how far it is.",
            parameters=[_BATCH_ID, BETA],
            responses={"200": answer("The batch.", ref("MessageBatch"), _BATCH)},
            errors=_ERRORS,
        ),
        "delete": _operation(
            "deleteMessageBatch",
            "Delete a batch",
            "Once it has ended. Its results go with it.",
            parameters=[_BATCH_ID, BETA],
            responses={
                "200": answer("It is gone.", ref("DeletedMessageBatch"), {"id": _ID, "type": "message_batch_deleted"})
            },
            errors=_ERRORS,
        ),
    },
    f"{BATCHES_PATH}/{{id}}/cancel": {
        "post": _operation(
            "cancelMessageBatch",
            "Cancel a batch",
            "What has begun is finished, or cancelled; the rest is not begun.",
            parameters=[_BATCH_ID, BETA],
            responses={"200": answer("The batch.", ref("MessageBatch"), _BATCH | {"processing_status": "canceling"})},
            errors=_ERRORS,
        )
    },
    f"{BATCHES_PATH}/{{id}}/results": {
        "get": _operation(
            "readMessageBatchResults",
            "Get a batch's results",
            "One line of JSON for each request, in any order, once the batch has ended.",
            parameters=[_BATCH_ID, BETA],
            responses={
                "200": {
                    "description": "The results.",
                    "headers": headers(),
                    "content": {"application/x-jsonl": {"schema": TEXT | {"contentSchema": ref("BatchResult")}}},
                }
            },
            errors=errors(*WITH_KEY, NotAcceptable, NotFound, Gone),
        )
    },
}
