"""Clients that hold on: each follows one message to its end, whatever dies on the way."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

RETRY_S = 0.1
PATIENCE_S = 60.0
TERMINAL = ("message_stop", "error")


@dataclass
class Watcher:
    """Posts a detached message, and reads on after the last event it saw until it has seen the end."""

    url: str
    key: str
    body: dict[str, Any]
    name: str
    id: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    last_id: int = 0
    resumes: int = 0
    replays: int = 0

    @property
    def ended(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in TERMINAL

    @property
    def text(self) -> str:
        return "".join(e["delta"]["text"] for e in self.events if e["type"] == "content_block_delta")

    @property
    def end(self) -> dict[str, Any]:
        """The last event that says anything: `message_delta`, or `error`."""
        return next(e for e in reversed(self.events) if e["type"] != "message_stop")

    async def watch(self) -> None:
        give_up = time.monotonic() + PATIENCE_S
        async with httpx.AsyncClient(base_url=self.url, headers={"x-api-key": self.key}, timeout=10) as client:
            while not self.ended:
                assert time.monotonic() < give_up, f"{self.name} has no end: {self.events[-1:]} {self.resumes=}"
                try:
                    await (self._read(client) if self.id else self._post(client))
                except httpx.HTTPError:  # whoever served us is gone
                    await asyncio.sleep(RETRY_S)

    async def _post(self, client: httpx.AsyncClient) -> None:
        """Make the message, once: the idempotency key sees to that."""
        answer = await client.post("/v1/streams", json=self.body, headers={"idempotency-key": self.name})
        if answer.status_code == 202:
            self.id = answer.json()["id"]
        else:
            assert answer.status_code in (500, 503), answer.text
            await asyncio.sleep(RETRY_S)

    async def _read(self, client: httpx.AsyncClient) -> None:
        headers = {"last-event-id": str(self.last_id)} if self.last_id else {}
        async with client.stream("GET", f"/v1/streams/{self.id}", headers=headers) as answer:
            if answer.status_code != 200:
                assert answer.status_code in (500, 503), (answer.status_code, await answer.aread(), self.last_id)
                await asyncio.sleep(RETRY_S)
                return
            self.resumes += bool(self.last_id)
            frame: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                elif frame:
                    self._take(frame)
                    frame = {}

    def _take(self, frame: dict[str, str]) -> None:
        if "id" not in frame:  # a ping, a farewell, or the gateway's own failure: read on
            return
        event = json.loads(frame["data"])
        if event["type"] == "message_start" and self.last_id:
            self.events, self.last_id = [], 0
            self.replays += 1
        assert int(frame["id"]) == self.last_id + 1, f"{self.name}: {frame['id']} after {self.last_id}"
        self.last_id += 1
        self.events.append(event)


async def watch_all(watchers: list[Watcher]) -> None:
    async with asyncio.TaskGroup() as group:
        for watcher in watchers:
            group.create_task(watcher.watch())
