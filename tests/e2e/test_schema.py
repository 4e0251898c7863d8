"""The whole API asked for what its schema allows and what it forbids: it answers as the schema says, and never 500."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.schemas import BaseSchema

from api.openapi.document import document
from tests.e2e.conftest import Product, a_body, records_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Json = dict[str, Any]
MESSAGE = a_body(max_tokens=2)
OPERATIONS = [(path, method) for path, methods in document()["paths"].items() for method in methods]
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"}
ENDS = {"message_stop", "error", "server_shutdown"}
# What a batch is given is read when its turn comes. Schemas cannot say all that makes a request good.
LATER, KEYS = "/v1/messages/batches", "/v1/organization/keys"
asking = hypothesis_settings(
    max_examples=5,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Site:
    """A product to ask with a key that may do everything, and something to find at each path."""

    client: httpx.Client
    ids: dict[str, str]

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    @property
    def headers(self) -> dict[str, str]:
        return {"x-api-key": self.client.headers["x-api-key"]}

    def path(self, template: str) -> str:
        """A path at which there is something; a key is a new one, since others may have been revoked."""
        found = self.new_key() if template.startswith(KEYS) else self.id_at(template)
        return template.replace("{id}", found)

    def new_key(self) -> str:
        return str(self.client.post(KEYS, json={"name": "victim"}).json()["id"])

    def id_at(self, template: str) -> str:
        return next((found for start, found in self.ids.items() if template.startswith(start)), "")


@pytest.fixture(scope="module")
def site(simulated: Product) -> Iterator[Site]:
    key = simulated.manage(
        "createkey", "asker", "--org", "schema", "--scope", "inference", "--scope", "usage", "--scope", "admin"
    )
    with httpx.Client(base_url=simulated.url, headers={"x-api-key": key}, timeout=60) as client:
        message = client.post("/v1/messages", json=MESSAGE).json()["id"]
        batch = client.post(LATER, json={"requests": [{"custom_id": "a", "params": MESSAGE}]}).json()["id"]
        records_of(simulated, key, 1)
        ids = {"/v1/streams/": message, "/v1/requests/": message, "/v1/models/": "default", f"{LATER}/": batch}
        site = Site(client, ids)
        ids[f"{KEYS}/"] = site.new_key()
        yield site


@pytest.fixture(scope="module")
def strict() -> Json:
    """The schema, with answers that have no more than it tells of."""
    closed = copy.deepcopy(document())
    for name, schema in closed["components"]["schemas"].items():
        if not name.endswith(("Frame", "StreamEvent")):  # in which readers fill in what was not sent
            _close(schema)
    return closed


@pytest.fixture(scope="module")
def schema(strict: Json) -> BaseSchema:
    return schemathesis.openapi.from_dict(strict)


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _close(part)
    elif isinstance(schema, list):
        for part in schema:
            _close(part)


def modest(body: Json) -> Json:
    """A body for a model that is served, and with few tokens."""
    limits = {name: min(body[name], 4) for name in ("max_tokens", "max_completion_tokens") if body.get(name)}
    model = {"model": "default"} if "model" in body else {}
    each = [request | {"params": modest(request["params"])} for request in body.get("requests", [])[:3]]
    return body | limits | model | ({"requests": each} if each else {})


def events_in(text: str) -> Iterator[Json]:
    for line in text.split("\n"):
        if line.startswith("data: {"):
            yield json.loads(line[6:])


def check_stream(strict: Json, path: str, text: str) -> None:
    """Hold each event to the schema of its type, and the stream to one end."""
    names = {
        schema["properties"]["type"]["const"]: name
        for name, schema in strict["components"]["schemas"].items()
        if f"{name}Frame" in strict["components"]["schemas"]
    }
    events = list(events_in(text))
    for event in events:
        name = names[event["type"]] if "type" in event else "OpenAIError" if "error" in event else "CompletionChunk"
        whole = {"$ref": f"#/components/schemas/{name}", "components": strict["components"]}
        jsonschema.validate(event, whole)
    if path.startswith("/v1/chat"):
        assert text.endswith("data: [DONE]\n\n") or "error" in events[-1]
    else:
        assert [event["type"] for event in events if event["type"] in ENDS] == [events[-1]["type"]]


def check(case: Case[Any], site: Site, strict: Json, *, mode: GenerationMode) -> None:
    excluded: list[Any] = CHECKS.get_by_names(["positive_data_acceptance"])
    if mode is GenerationMode.NEGATIVE and case.path == LATER:
        excluded += CHECKS.get_by_names(["negative_data_rejection"])
    response = case.call(base_url=site.url, headers=site.headers, timeout=60)
    case.validate_response(response, excluded_checks=excluded, headers=site.headers)
    if response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
        check_stream(strict, case.path, response.text)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_the_schema_allows(site: Site, schema: BaseSchema, strict: Json, path: str, method: str) -> None:
    @asking
    @given(case=schema[path][method].as_strategy(), real=st.booleans())
    def ask(case: Case[Any], real: bool) -> None:
        if real and "id" in case.path_parameters:
            case.path_parameters["id"] = site.id_at(path)
        if isinstance(case.body, dict):
            case.body = modest(case.body)
        check(case, site, strict, mode=GenerationMode.POSITIVE)

    ask()


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (path, method)
        for path, method in OPERATIONS
        if {"parameters", "requestBody"} & document()["paths"][path][method].keys()
    ],
)
def test_what_the_schema_forbids(site: Site, schema: BaseSchema, strict: Json, path: str, method: str) -> None:
    @hypothesis_settings(asking, max_examples=2 if path == LATER else asking.max_examples)  # they take long to make
    @given(case=schema[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def ask(case: Case[Any]) -> None:
        check(case, site, strict, mode=GenerationMode.NEGATIVE)

    ask()


@pytest.mark.parametrize(
    ("path", "name", "example"),
    [
        (path, name, example["value"])
        for path, methods in document()["paths"].items()
        for operation in methods.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
        for name, example in content["examples"].items()
    ],
)
def test_examples_work(site: Site, path: str, name: str, example: Json) -> None:
    method = "PATCH" if "patch" in document()["paths"][path] else "POST"
    r = site.client.request(method, site.path(path), json=example)
    assert r.status_code < 300, r.text


@pytest.mark.parametrize("path", document()["paths"])
def test_other_methods_are_refused(site: Site, path: str) -> None:
    known, found = {method.upper() for method in document()["paths"][path]}, site.path(path)
    for method in METHODS - known:
        r = site.client.request(method, f"{found}?limit=1")
        assert (r.status_code, r.json()["error"]["type"]) == (405, "invalid_request_error"), method
        assert set(r.headers["allow"].split(", ")) - {"HEAD"} == known
