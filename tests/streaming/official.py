"""The official clients, connected to a gateway of this process."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import openai
from channels.routing import URLRouter

from streaming.gateway import Gateway
from streaming.routes import routes

URL = "http://gateway.example"


def anthropic_client(gateway: Gateway, **more: Any) -> anthropic.AsyncAnthropic:
    http = anthropic.DefaultAsyncHttpxClient(transport=_to(gateway))
    return anthropic.AsyncAnthropic(**{"api_key": "good"} | more, base_url=URL, http_client=http, max_retries=0)


def openai_client(gateway: Gateway, **more: Any) -> openai.AsyncOpenAI:
    http = openai.DefaultAsyncHttpxClient(transport=_to(gateway))
    return openai.AsyncOpenAI(**{"api_key": "good"} | more, base_url=f"{URL}/v1", http_client=http, max_retries=0)


def _to(gateway: Gateway) -> httpx2.ASGITransport:
    return httpx2.ASGITransport(URLRouter(routes(gateway)))
