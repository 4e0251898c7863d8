"""Reading an HTTP/1.1 response and the typed events in it from bytes that come in any pieces. Pure, and cheap."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")
_LONGEST_HEAD = 64 * 1024


class Delta(Struct):
    """What one event adds: text or a part of a tool call's input; at the end, why it ended."""

    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class Usage(Struct):
    """Tokens so far."""

    output_tokens: int = 0


class ErrorInfo(Struct):
    """What failed."""

    type: str = ""
    message: str = ""


class Event(Struct):
    """One typed event, or the body of an error response: the fields that we look at."""

    type: str
    delta: Delta | None = None
    usage: Usage | None = None
    error: ErrorInfo | None = None


decode_event = msgspec.json.Decoder(Event).decode


class Response:
    """The head and the body of one response. Malformed bytes raise `ValueError`."""

    def __init__(self) -> None:
        self.status = 0  # until the head is in
        self.ended = False
        self._rest = b""
        self._chunked = False
        self._left: int | None = None  # of a body of known length; None lasts until the connection ends

    def feed(self, data: bytes) -> bytes:
        """Take bytes; return what they add to the body."""
        self._rest = self._rest + data if self._rest else data
        if not self.status and not self._read_head():
            return b""
        return self._chunks() if self._chunked else self._plain()

    def close(self) -> None:
        """Take the end of the connection, which ends a body of unknown length."""
        if self.status and not self._chunked and self._left is None:
            self.ended = True

    def _read_head(self) -> bool:
        head, found, rest = self._rest.partition(b"\r\n\r\n")
        if not found:
            if len(head) > _LONGEST_HEAD:
                raise ValueError("the head of the response has no end")
            return False
        status = _STATUS.match(head + b"\r\n")
        if not status:
            raise ValueError(f"no HTTP/1.1 response: {head[:40]!r}")
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        self._chunked = fields.get(b"transfer-encoding", b"").strip() == b"chunked"
        if b"content-length" in fields:
            self._left = _size(fields[b"content-length"], 10)
            self.ended = self._left == 0
        self.status, self._rest = int(status[1]), rest
        return True

    def _plain(self) -> bytes:
        body, self._rest = self._rest, b""
        if self._left is not None:
            body = body[: self._left]
            self._left -= len(body)
            self.ended = self._left == 0
        return body

    def _chunks(self) -> bytes:
        data, at, found = self._rest, 0, []
        while (line_end := data.find(b"\r\n", at)) >= 0:
            begin = line_end + 2
            size = _size(data[at:line_end].partition(b";")[0], 16)
            if size == 0:
                self.ended = True
                break
            if len(data) < begin + size + 2:
                break
            found.append(data[begin : begin + size])
            at = begin + size + 2
        self._rest = data[at:]
        return found[0] if len(found) == 1 else b"".join(found)


class Frames:
    """The data of server-sent events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, body: bytes) -> list[bytes]:
        """Take a piece of a stream; return the data of the events that it completes."""
        *frames, self._rest = (self._rest + body if self._rest else body).split(b"\n\n")
        return [data for frame in frames if (data := _data_of(frame))]


def _data_of(frame: bytes) -> bytes:
    return b"\n".join(line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:"))


def _size(text: bytes, base: int) -> int:
    size = int(text, base)
    if size < 0:
        raise ValueError("a size below 0")
    return size
