"""The servers that are asked the same, Sluice by Anthropic's stream and peers by OpenAI's: one client reads both."""

from __future__ import annotations

import argparse
import json
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from processes import Target, descendants

from config.loadtest.client import Server
from config.loadtest.wire import Delta, ErrorInfo, Event, Usage

LISTENING = "0A"  # a socket's state in /proc/net/tcp
CHAT = "/chat/completions"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A server, how to ask it, and its processes on this machine."""

    name: str
    server: Server
    body: Callable[[str, str, int], bytes]  # of the system prompt, the user's, and how many tokens
    pids: Callable[[], list[int]]


def sluice(target: Target) -> Side:
    """Return Sluice itself."""

    def body(system: str, prompt: str, max_tokens: int) -> bytes:
        asked = {"model": "default", "max_tokens": max_tokens, "stream": True, "temperature": 0.0}
        asked |= {"system": system} if system else {}
        return json.dumps(asked | {"messages": [{"role": "user", "content": prompt}]}).encode()

    return Side(name="Sluice", server=Server.at(target.url, target.key), body=body, pids=lambda: _tree(target.pid))


def peer(name: str, url: str) -> Side:
    """Return a server at the address of its chat completions; it is asked for the first model it lists."""
    base = url.removesuffix(CHAT)
    with urllib.request.urlopen(f"{base}/models", timeout=10) as answer:
        model = json.load(answer)["data"][0]["id"]

    def body(system: str, prompt: str, max_tokens: int) -> bytes:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": prompt})
        asked = {"model": model, "max_tokens": max_tokens, "stream": True, "temperature": 0.0, "messages": messages}
        return json.dumps(asked | {"stream_options": {"include_usage": True}}).encode()

    port = urlsplit(url).port or 80
    server = Server.at(base, "none", path=CHAT, decode=decode_chunk)
    return Side(name=name, server=server, body=body, pids=lambda: [p for owner in _owners(port) for p in _tree(owner)])


def named_peer(text: str) -> tuple[str, str]:
    """Read `NAME=URL`."""
    name, _, url = text.partition("=")
    if not name or not url.startswith("http") or not url.endswith(CHAT):
        raise argparse.ArgumentTypeError(f"expected NAME=http://HOST:PORT/v1{CHAT}, not {text!r}")
    return name, url


class ChunkDelta(Struct):
    content: str | None = None


class Choice(Struct):
    delta: ChunkDelta = msgspec.field(default_factory=ChunkDelta)
    finish_reason: str | None = None


class ChunkUsage(Struct):
    completion_tokens: int = 0


class Chunk(Struct):
    """One chunk of a chat completion: the fields that we look at."""

    choices: list[Choice] = []
    usage: ChunkUsage | None = None
    error: ErrorInfo | None = None


_decode = msgspec.json.Decoder(Chunk).decode


def decode_chunk(data: bytes) -> Event:
    """Read a chunk as the event that would say the same. Some peers end without `[DONE]`: a reason ends it, too."""
    if data == b"[DONE]":
        return Event(type="message_stop")
    chunk = _decode(data)
    usage = Usage(output_tokens=chunk.usage.completion_tokens) if chunk.usage else None
    choice = chunk.choices[0] if chunk.choices else Choice()
    if chunk.error is not None:
        return Event(type="error", error=chunk.error)
    if choice.delta.content:
        return Event(type="content_block_delta", delta=Delta(text=choice.delta.content), usage=usage)
    return Event(type="message_stop" if choice.finish_reason else "chunk", usage=usage)


def _tree(pid: int) -> list[int]:
    return [pid, *(child for child, _ in descendants(pid))]


def _owners(port: int) -> Iterator[int]:
    """Yield the process that listens on a port of this machine, if it is one that we may look into."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port}
    names = {f"socket:[{inode}]" for inode in inodes}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and _holds(entry, names):
            yield int(entry.name)
            return


def _holds(process: Path, sockets: set[str]) -> bool:
    try:
        return any(str(link.readlink()) in sockets for link in (process / "fd").iterdir())
    except OSError:  # gone, or another user's
        return False
