"""How our own serializer fields and our authentication look in the schema. Importing this makes them known."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)

from api.openapi.common import BOTH_KEYS, SECURITY_SCHEMES

Json = dict[str, Any]


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # its metaclass has no types
    """API keys, in either header."""

    target_class = "api.authentication.KeyAuthentication"
    name = ["apiKey", "bearer"]

    def get_security_definition(self, auto_schema: Any) -> list[Json]:
        return [SECURITY_SCHEMES[name] for name in self.name]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        return BOTH_KEYS


class WholeNumberField(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """A whole number within its bounds."""

    target_class = "api.strict_fields.WholeNumber"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> Json:
        return {"type": "integer", "minimum": self.target.min_value, "maximum": self.target.max_value}


class TextField(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """Text of one line."""

    target_class = "api.strict_fields.Text"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> Json:
        return {"type": "string", "minLength": 1, "maxLength": self.target.max_length}


class WordOrNullField(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """One of some words, or null."""

    target_class = "api.strict_fields.WordOrNull"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> Json:
        return {"type": "string", "enum": [*self.target.choices, None]}


class WordsField(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """A list of different words."""

    target_class = "api.strict_fields.Words"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> Json:
        known = self.target.known
        word = {"type": "string", "minLength": 1} if known is None else {"enum": list(known)}
        return {"type": "array", "items": word, "minItems": 1, "maxItems": self.target.most}


class StrictBody(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """A body that refuses what it does not know, and an answer that has all of its fields."""

    target_class = "api.keys_body.StrictSerializer"
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: str) -> Json:
        schema: Json = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)
        if direction == "request":
            return schema | {"additionalProperties": False}
        return schema | {"required": list(schema["properties"])}


class NameOrNullField(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """A name, or null."""

    target_class = "api.strict_fields.NameOrNull"

    def map_serializer_field(self, auto_schema: Any, direction: str) -> Json:
        return {"type": "string", "minLength": 1}
