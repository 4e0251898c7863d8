"""Reading what stands between the marks of tool calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Generator

from inference.protocol.tools import ToolFormat
from inference.text import CallKind
from inference.toolcalls.json_walker import SPACE, JsonWalker

Reading = Generator[None, str, None]  # is sent the characters one by one, ends with the last
Say = Callable[[CallKind, str], None]

_LONGEST_HEAD = 500  # of a call that is written without quotes: name, id and the mark between


class NotACall(ValueError):
    """Raised at the first character by which it is no call of a tool that there is."""


class CallReader:
    """Reads calls in one format, and says what it reads: the name, the input as it is written, the end.

    `strict` refuses keys that no call has, at once: what has no opening mark may be an object of any kind.
    """

    def __init__(self, form: ToolFormat, names: Collection[str], say: Say) -> None:
        self._form, self._names, self._say = form, names, say
        id_mark, mark = map(re.escape, (form.id_mark, form.arguments_mark))
        self._head = re.compile(rf"\s*([\w.-]+)\s*(?:(?:{id_mark}\s*\w*\s*)?{mark})?\s*{{")  # of a named call

    def read(self, *, strict: bool) -> Reading:
        """Take the characters after the opening mark; raise `NotACall`, or `NotJson` where they are none."""
        if self._form.named:
            return self._named()
        return self._listed() if self._form.listed else self._object(strict=strict)

    def _listed(self) -> Reading:
        if (yield from _after_space()) != "[":
            raise NotACall("expected a list of calls")
        while True:
            yield from self._object(strict=False)
            separator = yield from _after_space()
            if separator == "]":
                return
            if separator != ",":
                raise NotACall("expected another call, or the end of the list")

    def _object(self, *, strict: bool) -> Reading:
        call = ObjectCall(self._form.arguments, self._names, self._say, strict=strict)
        while not call.done:
            call.push((yield))

    def _named(self) -> Reading:
        """Read a name, perhaps an id, and the input."""
        head, walker = "", JsonWalker()
        while not head.endswith("{"):
            head += yield
            if len(head) > _LONGEST_HEAD:
                raise NotACall("expected an input")
        found = self._head.fullmatch(head)
        if not found:
            raise NotACall("expected a name and an input")
        self._say("start", _known(found[1], self._names))
        character = "{"
        while not walker.done:
            walker.push(character)
            self._say("input", character)
            if not walker.done:
                character = yield
        self._say("end", "")


class ObjectCall:
    """One call that is an object. Its name may come after its input, which waits for it."""

    def __init__(self, arguments: Collection[str], names: Collection[str], say: Say, *, strict: bool) -> None:
        self._arguments, self._names, self._say, self._strict = arguments, names, say, strict
        self._walker = JsonWalker()
        self._name = ""
        self._waiting = ""  # input without a name
        self._inside = self._has_input = False

    @property
    def done(self) -> bool:
        return self._walker.done

    def push(self, character: str) -> None:
        """Take the next character of the object."""
        begins = self._begins_input(character)
        self._walker.push(character)
        if begins:
            if character != "{":
                raise NotACall("its input is no object")
            self._inside = self._has_input = True
            if self._name:
                self._say("start", self._name)
        if self._inside:
            self._push_input(character)
        else:
            self._look_around()
        if self.done:
            self._end()

    def _begins_input(self, character: str) -> bool:
        walker = self._walker
        return (
            walker.awaits_value
            and walker.depth == 1
            and walker.key in self._arguments
            and not self._has_input
            and character not in SPACE
        )

    def _push_input(self, character: str) -> None:
        self._inside = self._walker.depth > 1
        if not self._name:
            self._waiting += character
            return
        self._say("input", character)
        if not self._inside:
            self._say("end", "")

    def _look_around(self) -> None:
        walker = self._walker
        if self._strict and walker.key not in (None, "name", "type", "id", *self._arguments):
            raise NotACall("an object of another kind")
        if not self._name and walker.key == "name" and walker.value is not None:
            self._name = _known(json.loads(f'"{walker.value}"'), self._names)
            if self._waiting:
                self._say_all(self._waiting)

    def _end(self) -> None:
        if not self._name or (self._strict and not self._has_input):
            raise NotACall("a name or an input is missing")
        if not self._has_input:
            self._say_all("{}")

    def _say_all(self, written: str) -> None:
        self._say("start", self._name)
        self._say("input", written)
        self._say("end", "")


def _known(name: str, names: Collection[str]) -> str:
    if name not in names:
        raise NotACall("there is no such tool")
    return name


def _after_space() -> Generator[None, str, str]:
    """Take characters up to the first that is no space, and return it."""
    while (character := (yield)) in SPACE:
        pass
    return character
