"""The operations of the gateway's own paths."""

from __future__ import annotations

from typing import Any

from api.openapi.common import (
    ALWAYS,
    ANTHROPIC_LIMITS,
    BOTH_KEYS,
    OPENAI_LIMITS,
    WITH_BODY,
    WITH_KEY,
    errors,
    headers,
    ref,
)
from common.errors import (
    ApiError,
    AuthenticationFailed,
    Conflict,
    Gone,
    NotFound,
    Overloaded,
    RateLimited,
    Timeout,
)
from streaming.models import LARGEST_PAGE
from streaming.models import PAGE as DEFAULT_PAGE
from streaming.openapi import examples
from streaming.openapi.bodies import CHAT

Json = dict[str, Any]

MESSAGES, STREAMS, MODELS, CHAT_TAG, OPERATIONS = "Messages", "Streams", "Models", "OpenAI", "Operations"
TAGS = [
    {"name": MESSAGES, "description": "Ask a model, in the form of Anthropic's Messages API."},
    {"name": STREAMS, "description": "Read, resume and cancel messages, whoever of the organisation posted them."},
    {"name": MODELS, "description": "What is served now."},
    {"name": CHAT_TAG, "description": "The same models in OpenAI's form."},
    {"name": OPERATIONS, "description": "For load balancers and monitoring."},
]
WORK = (*WITH_KEY, *WITH_BODY, NotFound, Conflict, Gone, RateLimited, Timeout, Overloaded)


def operation(
    operation_id: str, summary: str, about: str, *, tag: str, responses: Json, errors: Json, **more: Any
) -> Json:
    """Return one operation; its answers begin with what is not an error."""
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": about,
        "tags": [tag],
        "security": BOTH_KEYS,
        **more,
        "responses": responses | errors,
    }


def answer(about: str, schema: Json, example: Any = None, *, more_headers: tuple[str, ...] = (), **more: Json) -> Json:
    """Return one answer in JSON, and in the media types that `more` has."""
    content = {"schema": schema} | ({} if example is None else {"example": example})
    return {"description": about, "headers": headers(*more_headers), "content": {"application/json": content} | more}


def body(schema: str, **named: tuple[str, Json]) -> Json:
    """Return a request's body with its examples."""
    shown = {name: {"summary": summary, "value": value} for name, (summary, value) in named.items()}
    return {"required": True, "content": {"application/json": {"schema": ref(schema), "examples": shown}}}


def stream(schema: str, example: Json) -> Json:
    """Return the content of a stream: its schema is that of each frame."""
    return {"text/event-stream": {"schema": ref(schema), "example": example}}


def parameter(name: str, where: str, about: str, *, required: bool = False, **schema: Any) -> Json:
    """Return a parameter."""
    return {"name": name, "in": where, "description": about, "required": required, "schema": schema or TEXT}


TEXT: Json = {"type": "string"}
MESSAGE_ID = parameter("id", "path", "The message's id.", required=True, type="string", examples=[examples.ID])
IDEMPOTENCY = parameter(
    "idempotency-key",
    "header",
    "The same key and body are one message for 24 hours, however often they are sent.",
    type="string",
    maxLength=255,
)
ON_DISCONNECT = parameter(
    "x-sluice-on-disconnect",
    "header",
    "What becomes of the message when its client leaves. Without it: `cancel`, or `continue` with an idempotency key.",
    enum=["continue", "cancel"],
)
BETA = parameter("beta", "query", "A hint of Anthropic's clients: accepted, and nothing comes of it here.")
PAGE = [
    parameter("limit", "query", "So many at most.", type="integer", minimum=1, maximum=LARGEST_PAGE)
    | {"schema": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": DEFAULT_PAGE}},
    parameter("after_id", "query", "Those after this one."),
    parameter("before_id", "query", "Those before this one; not together with `after_id`."),
]

CREATE_MESSAGE = operation(
    "createMessage",
    "Create a message",
    "Answers with the whole message as JSON, or with `stream: true` as a stream of typed events, which begins at once "
    "and ends with exactly one of `message_stop` and `error`. A client that leaves ends its message, unless it said "
    "otherwise or somebody else reads it.",
    tag=MESSAGES,
    parameters=[BETA, IDEMPOTENCY, ON_DISCONNECT],
    requestBody=body(
        "MessagesBody",
        whole=("A message", examples.MESSAGE),
        streamed=("A stream", examples.STREAMED),
        tool=("A call of a tool", examples.WITH_TOOL),
    ),
    responses={
        "200": answer(
            "The message, whole or as a stream.",
            ref("Message"),
            examples.ANSWER,
            more_headers=(*ANTHROPIC_LIMITS, "cache-control"),
            **stream("StreamEvent", examples.EVENT),
        )
    },
    errors=errors(*WORK),
)
COUNT_TOKENS = operation(
    "countTokens",
    "Count a prompt's tokens",
    "How many tokens the model would read. Takes from no limit.",
    tag=MESSAGES,
    parameters=[BETA],
    requestBody=body("CountBody", prompt=("A prompt", examples.PROMPT)),
    responses={"200": answer("The number of tokens.", ref("TokenCount"), {"input_tokens": 36})},
    errors=errors(*WITH_KEY, *WITH_BODY, NotFound),
)
CREATE_STREAM = operation(
    "createStream",
    "Create a detached message",
    "The message goes on by itself, whoever reads it. `stream_url` can be given to a page: it opens this one stream, "
    "without the API key, until `expires_at` or the key's revocation.",
    tag=STREAMS,
    parameters=[IDEMPOTENCY],
    requestBody=body("MessagesBody", message=("A message", examples.MESSAGE)),
    responses={
        "202": answer("Where to read the message.", ref("Detached"), examples.DETACHED, more_headers=ANTHROPIC_LIMITS)
    },
    errors=errors(*WORK),
)
READ_STREAM = operation(
    "readStream",
    "Read or resume a stream",
    "The events after the given id, or all, and then those to come. An id that is none of this stream replays all: "
    "`message_start` says so. Never starts work.",
    tag=STREAMS,
    security=[*BOTH_KEYS, {"streamToken": []}],
    parameters=[
        MESSAGE_ID,
        parameter("last-event-id", "header", "The id of the last event that was read; beats the query."),
        parameter("last_event_id", "query", "The same, for a new EventSource."),
        parameter("token", "query", "The token of a `stream_url`, instead of a key."),
    ],
    responses={
        "200": {
            "description": "The events.",
            "headers": headers("cache-control"),
            "content": stream("StreamEvent", examples.EVENT),
        },
        "204": {"description": "The stream has ended and was read to its end.", "headers": headers()},
    },
    errors=errors(*WITH_KEY, NotFound, Gone),
)
CANCEL_STREAM = operation(
    "cancelStream",
    "Cancel a message",
    "Asks the worker to end the message; asking again changes nothing. What had ended otherwise says how.",
    tag=STREAMS,
    parameters=[MESSAGE_ID],
    responses={
        "200": answer("It is cancelled, or had ended.", ref("Cancelled"), {"id": examples.ID, "status": "cancelled"})
    },
    errors=errors(*WITH_KEY, NotFound, Gone),
)
READ_MESSAGE = operation(
    "readMessage",
    "Get the finished message",
    "The message as JSON, once it has ended.",
    tag=STREAMS,
    parameters=[MESSAGE_ID],
    responses={
        "200": answer("The finished message.", ref("Message"), examples.ANSWER),
        "202": answer(
            "It is not finished yet.",
            ref("Running"),
            {"id": examples.ID, "status": "running"},
            more_headers=("retry-after",),
        ),
    },
    errors=errors(*WITH_KEY, NotFound, Gone, Timeout),
)
LIST_MODELS = operation(
    "listModels",
    "List models",
    "Those that the key may use. A Bearer key without `anthropic-version`, as OpenAI's clients send it, gets all in "
    "one page, and errors in OpenAI's form.",
    tag=MODELS,
    parameters=[BETA, *PAGE],
    responses={"200": answer("A page of models.", ref("ModelPage"), examples.MODELS)},
    errors=errors(*WITH_KEY, form="Either"),
)
SHOW_MODEL = operation(
    "showModel",
    "Get a model",
    "One model; `default` is the first one.",
    tag=MODELS,
    parameters=[
        parameter("id", "path", "The model's id.", required=True, type="string", examples=["default"]),
        BETA,
    ],
    responses={"200": answer("The model.", ref("Model"), examples.MODEL)},
    errors=errors(*WITH_KEY, NotFound, form="Either"),
)
CREATE_COMPLETION = operation(
    "createChatCompletion",
    "Create a chat completion",
    "The same as a message, in OpenAI's form. A stream ends with `[DONE]`; one that was cut ends with an error and "
    "without it.",
    tag=CHAT_TAG,
    parameters=[IDEMPOTENCY, ON_DISCONNECT],
    requestBody=body(
        f"{CHAT}ChatBody",
        whole=("A completion", examples.CHAT),
        streamed=("A stream with its usage", examples.CHAT_STREAMED),
    ),
    responses={
        "200": answer(
            "The completion, whole or as a stream.",
            ref("Completion"),
            examples.COMPLETION,
            more_headers=(*OPENAI_LIMITS, "cache-control"),
            **stream("ChatStreamEvent", examples.CHUNK),
        )
    },
    errors=errors(*WORK, form="OpenAI"),
)
LIVE = operation(
    "showLiveness",
    "Whether the process lives",
    "Answers as long as the process runs, draining or not.",
    tag=OPERATIONS,
    security=[],
    responses={"200": answer("It does.", ref("Health"), {"status": "ok"})},
    errors=errors(*(kind for kind in ALWAYS if kind.status not in (503,))),
)
READY = operation(
    "showReadiness",
    "Whether requests can be served",
    "503 while draining, without Redis, or without a worker.",
    tag=OPERATIONS,
    security=[],
    responses={
        "200": answer("They can.", ref("Health"), {"status": "ok"}),
        "503": answer("They cannot; says why.", ref("Health"), {"status": "draining"}),
    },
    errors=errors(*(kind for kind in ALWAYS if kind.status not in (503,))),
)
METRICS = operation(
    "showMetrics",
    "Metrics for Prometheus",
    "One scrape for all processes, whichever gateway answers it. For the server's own machine, or with the token.",
    tag=OPERATIONS,
    security=[{"metricsToken": []}, {}],
    responses={
        "200": {
            "description": "The metrics, in the form that the scraper asks for.",
            "headers": headers(),
            "content": {name: {"schema": TEXT} for name in ("text/plain", "application/openmetrics-text")},
        }
    },
    errors=errors(ApiError, AuthenticationFailed, *ALWAYS),
)

PATHS: Json = {
    "/v1/messages": {"post": CREATE_MESSAGE},
    "/v1/messages/count_tokens": {"post": COUNT_TOKENS},
    "/v1/streams": {"post": CREATE_STREAM},
    "/v1/streams/{id}": {"get": READ_STREAM, "delete": CANCEL_STREAM},
    "/v1/streams/{id}/message": {"get": READ_MESSAGE},
    "/v1/models": {"get": LIST_MODELS},
    "/v1/models/{id}": {"get": SHOW_MODEL},
    "/v1/chat/completions": {"post": CREATE_COMPLETION},
    "/healthz": {"get": LIVE},
    "/readyz": {"get": READY},
    "/metrics": {"get": METRICS},
}
