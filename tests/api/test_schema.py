"""The schema at /v1/openapi.json: that it is one, that it covers what is served, and that its examples are true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import jsonschema
import msgspec
import pytest
from django.conf import settings
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

from api.openapi.common import ERRORS
from api.openapi.document import document
from common import errors
from streaming.gateway import Gateway
from streaming.routes import routes
from streaming.surfaces.chat_body import parse_chat
from streaming.surfaces.messages_body import parse_count, parse_messages

Json = dict[str, Any]
METHODS = ("get", "post", "patch", "delete")


@cache
def operations() -> dict[tuple[str, str], Json]:
    """All operations, by method and path."""
    return {
        (method, path): operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def each_part(part: Any) -> Iterator[Json]:
    """All objects within the schema, whatever they are."""
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from each_part(inner)


def check(value: Any, schema: Json) -> None:
    """Hold a value to a schema of the document."""
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "components": document()["components"]}
    jsonschema.validate(value, whole | schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def test_it_works_without_a_key_or_the_database(client: Client) -> None:
    r = client.get("/v1/openapi.json")
    assert (r.status_code, r.headers["content-type"]) == (200, "application/json")
    assert r.json() == document()
    assert r.headers["cache-control"] == "public, max-age=300"


def test_it_is_built_once() -> None:
    assert document() is document()


def test_it_is_valid() -> None:
    assert document()["openapi"] == "3.1.0"
    validate_schema(document())  # type: ignore[no-untyped-call]
    for schema in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_whatever_is_referred_to_is_there() -> None:
    components = document()["components"]
    for part in each_part(document()):
        if isinstance(reference := part.get("$ref"), str):
            kind, name = reference.removeprefix("#/components/").split("/")
            assert name in components[kind], reference


def test_whatever_is_there_is_referred_to() -> None:
    told = {part["$ref"] for part in each_part(document()) if isinstance(part.get("$ref"), str)}
    schemas = {f"#/components/schemas/{name}" for name in document()["components"]["schemas"]}
    assert schemas <= told


def test_every_operation_has_its_own_name_tag_and_text() -> None:
    names = [operation["operationId"] for operation in operations().values()]
    assert len(set(names)) == len(names)
    known = {tag["name"] for tag in document()["tags"]}
    for operation in operations().values():
        assert operation["summary"]
        assert operation["description"]
        assert set(operation["tags"]) <= known


def test_examples_are_as_their_schemas_say() -> None:
    seen = 0
    for content in each_part(document()["paths"]):
        if "schema" in content and "in" not in content:
            shown = [content["example"]] if "example" in content else []
            for value in shown + [example["value"] for example in content.get("examples", {}).values()]:
                check(value, content["schema"])
                seen += 1
    assert seen > 30


def test_every_body_has_an_example_that_is_read() -> None:
    readers: dict[str, Callable[[bytes], Any]] = {
        "MessagesBody": parse_messages,
        "CountBody": parse_count,
        "OpenAIChatBody": parse_chat,
    }
    for operation in operations().values():
        if body := operation.get("requestBody"):
            (content,) = body["content"].values()
            assert content["examples"]
            if read := readers.get(content["schema"]["$ref"].rpartition("/")[2]):
                for example in content["examples"].values():
                    read(msgspec.json.encode(example["value"]))


def served_by_django(patterns: Any, before: str = "/") -> Iterator[str]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from served_by_django(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern):
            yield path


def bare(path: str) -> str:
    """A path without the names of its variables."""
    return re.sub(r"[<{][^>}]*[>}]", "{}", path)


def test_every_path_that_is_served_is_told_of_and_no_other() -> None:
    served = {
        (method.lower(), bare(f"/{route.pattern}"))
        for route in routes(Gateway(settings.SLUICE))
        for method in route.callback._handlers  # type: ignore[attr-defined]
    }
    for path in served_by_django(get_resolver().url_patterns):
        if path.startswith("/v1/"):
            view: Any = get_resolver().resolve(path.replace("<slug:pk>", "x").replace("<str:pk>", "x")).func
            served |= {(method, bare(path)) for method in METHODS if hasattr(view.view_class, method)}
    assert served == {(method, bare(path)) for method, path in operations()}


def test_every_query_parameter_that_is_known_is_told_of() -> None:
    by_bare_path = {(method, bare(path)): operation for (method, path), operation in operations().items()}
    for route in routes(Gateway(settings.SLUICE)):
        endpoint: Any = route.callback
        for method in endpoint._handlers:
            operation = by_bare_path[method.lower(), bare(f"/{route.pattern}")]
            told = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
            if method == "GET" or told:
                assert set(told) == set(endpoint._parameters or ()), route


def test_every_error_is_told_of_in_both_forms() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ApiError)}
    assert set(ERRORS) == kinds
    told = document()["components"]["responses"]
    for kind in kinds:
        assert {kind.__name__, f"{kind.__name__}OpenAI"} <= told.keys()


def test_callers_can_show_who_they_are_in_either_way() -> None:
    for (_, path), operation in operations().items():
        is_open = path in ("/healthz", "/readyz", "/metrics", "/v1/openapi.json")
        assert ({"apiKey": []} in operation["security"] and {"bearer": []} in operation["security"]) != is_open


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ("MessagesBody", {"cache_control", "metadata", "service_tier"}),
        ("OpenAIChatBody", {"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"}),
    ],
)
def test_hints_are_marked(schema: str, fields: set[str]) -> None:
    properties = document()["components"]["schemas"][schema]["properties"]
    assert {name for name, field in properties.items() if field.get("x-sluice-hint")} == fields


def test_a_field_that_is_always_refused_is_not_told_of() -> None:
    for name in ("MessagesBody", "CountBody"):
        assert "thread" not in document()["components"]["schemas"][name]["properties"]


def test_limits_are_told_in_headers() -> None:
    created = operations()["post", "/v1/messages"]["responses"]
    assert "anthropic-ratelimit-requests-remaining" in created["200"]["headers"]
    refused = document()["components"]["responses"]["RateLimited"]["headers"]
    assert {"retry-after", "x-should-retry", "x-ratelimit-remaining-tokens"} <= refused.keys()
    for responses in [created, *(operation["responses"] for operation in operations().values())]:
        assert "request-id" in responses.get("200", responses.get("201", responses.get("202")))["headers"]


def test_it_rejects_parameters(client: Client) -> None:
    r = client.get("/v1/openapi.json?format=yaml")
    assert r.json()["error"]["message"].startswith("format: no such query parameter")
