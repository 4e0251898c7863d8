"""From the schema to what the page shows: groups of operations, and the objects that they speak of."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any

from django.utils.safestring import SafeString

from api.docs.text import bounds_of, coloured, prose, type_of
from api.openapi.common import ERRORS, about

Json = dict[str, Any]
HINT = "x-sluice-hint"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a body or an answer, or a parameter."""

    name: str
    kind: SafeString
    about: SafeString
    bounds: str
    required: bool
    where: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Something to read or to copy."""

    title: str
    text: SafeString


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer that is no error."""

    status: str
    about: SafeString
    kinds: list[tuple[str, SafeString]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation."""

    id: str
    method: str
    path: str
    summary: str
    about: SafeString
    is_open: bool
    parameters: list[Field]
    body: list[Field]
    requests: list[Sample]
    answers: list[Answer]
    samples: list[Sample]
    errors: list[str]


@dataclass(frozen=True, slots=True)
class Group:
    """Operations of one kind."""

    name: str
    about: str
    operations: list[Operation]

    @property
    def anchor(self) -> str:
        return self.name.lower().replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Object:
    """What a schema describes."""

    name: str
    about: SafeString
    kind: SafeString | None
    fields: list[Field]


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table of errors."""

    status: int
    phrase: str
    kind: str
    about: SafeString


class Reference:
    """What the page shows of a schema; `origin` is where the API is."""

    def __init__(self, schema: Json, origin: str) -> None:
        self._schema, self._origin = schema, origin
        self._components: Json = schema["components"]

    @cached_property
    def groups(self) -> list[Group]:
        """The operations, by their tags."""
        found: dict[str, list[Operation]] = {tag["name"]: [] for tag in self._schema["tags"]}
        for path, methods in self._schema["paths"].items():
            for method, operation in methods.items():
                found[operation["tags"][0]].append(self._operation(path, method, operation))
        return [Group(tag["name"], tag["description"], found[tag["name"]]) for tag in self._schema["tags"]]

    @cached_property
    def objects(self) -> list[Object]:
        """What the operations speak of, by name."""
        return [
            Object(
                name,
                prose(schema.get("description", "")),
                None if "properties" in schema else type_of(schema),
                self._fields(schema),
            )
            for name, schema in sorted(self._components["schemas"].items(), key=lambda item: str(item[0]).lower())
        ]

    @cached_property
    def faults(self) -> list[Fault]:
        """All errors, by their status."""
        return [
            Fault(kind.status, _phrase(kind.status), kind.kind, prose(about(kind)))
            for kind in sorted(ERRORS, key=lambda kind: kind.status)
        ]

    @cached_property
    def hints(self) -> list[tuple[str, str]]:
        """The objects that have hints which do nothing here, and those."""
        found = {
            name: [field for field, part in schema.get("properties", {}).items() if part.get(HINT)]
            for name, schema in self._components["schemas"].items()
        }
        return [(name, ", ".join(fields)) for name, fields in found.items() if fields]

    def _operation(self, path: str, method: str, operation: Json) -> Operation:
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        examples = content.get("examples", {}) or {"": {"summary": "Request", "value": None}}
        good = {
            status: answer
            for status, answer in operation["responses"].items()
            if "content" in answer or "$ref" not in answer
        }
        return Operation(
            id=operation["operationId"],
            method=method.upper(),
            path=path,
            summary=operation["summary"],
            about=prose(operation["description"]),
            is_open=not operation["security"],
            parameters=[self._parameter(parameter) for parameter in operation.get("parameters", ())],
            body=self._fields(self._resolved(content.get("schema", {}))),
            requests=[
                Sample(
                    example["summary"] if len(examples) > 1 else "Request",
                    coloured(self._curl(path, method, operation, example["value"])),
                )
                for example in examples.values()
            ],
            answers=[self._answer(status, answer) for status, answer in good.items()],
            samples=[sample for status, answer in good.items() for sample in _samples(status, answer)],
            errors=[status for status in operation["responses"] if status not in good],
        )

    def _parameter(self, parameter: Json) -> Field:
        return Field(
            parameter["name"],
            type_of(parameter["schema"]),
            prose(parameter.get("description", "")),
            bounds_of(parameter["schema"]),
            parameter.get("required", False),
            parameter["in"],
        )

    def _answer(self, status: str, answer: Json) -> Answer:
        kinds = [(media, type_of(content.get("schema", {}))) for media, content in answer.get("content", {}).items()]
        return Answer(status, prose(answer["description"]), kinds)

    def _fields(self, schema: Json) -> list[Field]:
        required = schema.get("required", ())
        fields = [
            Field(name, type_of(part), prose(part.get("description", "")), bounds_of(part), name in required)
            for name, part in schema.get("properties", {}).items()
        ]
        return sorted(fields, key=lambda field: not field.required)

    def _resolved(self, schema: Json) -> Json:
        name = schema.get("$ref", "").rpartition("/")[2]
        found: Json = self._components["schemas"][name] if name else schema
        return found

    def _curl(self, path: str, method: str, operation: Json, body: Any) -> str:
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", (parameter["schema"].get("examples") or ["ID"])[0])
        streams = "text/event-stream" in json.dumps(operation["responses"]) and (body is None or body.get("stream"))
        parts = [f"curl {'-N ' if streams else ''}{self._origin}{path}"]
        if method not in ("get", "post") or (method == "post" and body is None):
            parts[0] = parts[0].replace("curl ", f"curl -X {method.upper()} ", 1)
        if operation["security"]:
            parts.append('-H "x-api-key: $SLUICE_KEY"')
        if body is not None:
            parts += ["-H 'content-type: application/json'", f"-d {shlex.quote(json.dumps(body, indent=2))}"]
        return " \\\n  ".join(parts)


def _samples(status: str, answer: Json) -> list[Sample]:
    found = []
    for media, content in answer.get("content", {}).items():
        shown = [content["example"]] if "example" in content else []
        for value in shown + [example["value"] for example in content.get("examples", {}).values()]:
            is_stream = media == "text/event-stream"
            title = f"{status} {'a frame of the stream' if is_stream else _phrase(int(status))}"
            found.append(Sample(title, coloured(_frame(value) if is_stream else value)))
    return found


def _frame(event: Json) -> str:
    return "\n".join(f"{name}: {value}" for name, value in event.items())


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded"  # 529 is Anthropic's
