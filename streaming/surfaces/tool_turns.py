"""Tools, calls and results: a request's tools differ by name, and each call has one result, in the turn after it."""

from __future__ import annotations

from typing import Any

from common.errors import InvalidRequest
from streaming.schemas import SchemaReader
from streaming.wanted import Tool, Turn

TOOL_NAME = r"^[A-Za-z0-9_-]{1,128}$"
MAX_TOOLS = 128


class Tools:
    """The tools that a request offers."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._schemas = SchemaReader()

    def add(
        self, name: str, *, description: str | None, schema: dict[str, Any], strict: bool | None, where: str, field: str
    ) -> None:
        """Add a tool; raise `InvalidRequest` where its name is taken, or its schema, in `field`, is no object's."""
        if name in self._tools:
            raise InvalidRequest(f"{where}.name: another tool has the same name.")
        if schema.get("type") != "object":
            raise InvalidRequest(f"{where}.{field}.type: expected 'object'.")
        read = self._schemas.read(schema, f"{where}.{field}")
        self._tools[name] = Tool(name=name, description=description or "", schema=read, strict=bool(strict))

    def all(self) -> tuple[Tool, ...]:
        """Return the tools in their order."""
        return tuple(self._tools.values())


class PendingCalls:
    """The calls whose results have not come yet."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._seen: set[str] = set()

    def call(self, call_id: str, name: str, arguments: dict[str, Any], where: str) -> dict[str, Any]:
        """Note a call, and return it as chat templates take it."""
        if call_id in self._seen:
            raise InvalidRequest(f"{where}: {call_id!r} is the id of an earlier call, too.")
        self._seen.add(call_id)
        self._names[call_id] = name
        return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}

    def result(self, call_id: str, text: str, where: str) -> Turn:
        """Return a result as a turn."""
        if call_id not in self._names:
            raise InvalidRequest(f"{where}: no call with the id {call_id!r} is waiting for a result.")
        return {"role": "tool", "tool_call_id": call_id, "name": self._names.pop(call_id), "content": text}

    def finish(self, where: str) -> None:
        """Refuse anything else while a result is missing."""
        if self._names:
            raise InvalidRequest(f"{where}: expected the results of {', '.join(self._names)} first.")


def add_turn(turns: list[Turn], role: str, text: str, calls: list[dict[str, Any]] | None = None) -> None:
    """Add a turn, or join it to the last one where that is of the same role: many chat templates want them in turn."""
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] = "\n".join(filter(None, (turns[-1]["content"], text)))
    else:
        turns.append({"role": role, "content": text})
    if calls:
        turns[-1]["tool_calls"] = [*turns[-1].get("tool_calls", ()), *calls]
