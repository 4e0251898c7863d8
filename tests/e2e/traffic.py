"""Everything that customers and operators do, with words and keys that can be looked for."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from typing import Any

import httpx

from tests.e2e.conftest import Product, a_body, stream

# Words that stand for what people say, in no code of ours. In the answers each is one token: a part of an answer shows.
PROMPT, SYSTEM, ANSWER = "cardiomyopathy", "hyperthyroidism", "periodontitis"
TOOL_NAME, TOOL_TEXT, TOOL_INPUT, TOOL_RESULT = (f"zq{word}q7" for word in ("toolname", "tooltext", "input", "result"))
METADATA, HEADER, WRONG_FIELD, WRONG_VALUE = (f"zq{word}q7" for word in ("metadata", "header", "field", "value"))
SCHEMA, STOP = "zqschemaq7", "zqstopq7"
WORDS = (
    PROMPT, SYSTEM, ANSWER, TOOL_NAME, TOOL_TEXT, TOOL_INPUT, TOOL_RESULT, METADATA, HEADER, WRONG_FIELD, WRONG_VALUE,
    SCHEMA, STOP,
)  # fmt: skip
WRONG_KEY, NO_KEY = f"sk-sluice-AbCdEfGh-{'zq7' * 14}q", "zq-something-pasted-by-mistake-q7"
JSON = {"content-type": "application/json"}
PASSWORD = "zq-root-password-q7"


class Traffic:
    """Everything a customer and an operator do."""

    def __init__(self, product: Product) -> None:
        self.product, self.secrets = product, {}
        self.secrets["key"] = self.key = product.manage("createkey", "first", "--scope", "inference,usage,admin")
        self.num_admitted = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"x-api-key": self.key}

    def post(self, path: str, body: Any, expected: int, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        r = httpx.post(self.product.url + path, content=content, headers=self.headers | JSON | headers, timeout=60)
        assert r.status_code == expected, r.text
        self.num_admitted += path in ("/v1/messages", "/v1/streams", "/v1/chat/completions") and r.is_success
        return r

    def messages(self) -> None:
        said = f"SLUICE-SAY: It is {ANSWER}, I fear."
        tool = {"name": TOOL_NAME, "description": TOOL_TEXT, "input_schema": {"type": "object", "title": SCHEMA}}
        call = {"name": TOOL_NAME, "arguments": {"about": TOOL_INPUT}}
        called = f"SLUICE-SAY: <tool_call>\n{json.dumps(call)}\n</tool_call>"
        user = {"metadata": {"user_id": METADATA}, "system": SYSTEM, "stop_sequences": [STOP]}
        assert ANSWER in self.post("/v1/messages", a_body(said, **user), 200).text
        assert any(ANSWER in str(event.data) for event in stream(self.product, self.key, a_body(said, **user)))
        self.num_admitted += 1
        assert TOOL_INPUT in self.post("/v1/messages", a_body(called, max_tokens=200, tools=[tool]), 200).text
        used = {"about": TOOL_INPUT}
        turns = [
            {"role": "user", "content": PROMPT},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": TOOL_NAME, "input": used}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": TOOL_RESULT}]},
        ]  # fmt: skip
        self.post("/v1/messages", a_body(tools=[tool], messages=turns), 200, **{"idempotency-key": HEADER})
        self.post("/v1/messages/count_tokens", {"model": "default", "messages": turns, "tools": [tool]}, 200)
        chat = {"model": "default", "max_tokens": 16, "user": METADATA, "messages": [{"role": "user", "content": said}]}
        assert ANSWER in self.post("/v1/chat/completions", chat, 200).text
        self.post("/v1/chat/completions", chat | {"stream": True}, 200)
        self.post("/v1/messages", a_body(f"{PROMPT} " * 1000, max_tokens=2), 200)  # a long one is tokenised in a thread

    def refusals(self) -> None:
        for body in (
            a_body(PROMPT, **{WRONG_FIELD: 1}),
            a_body(PROMPT, max_tokens=WRONG_VALUE),
            a_body(PROMPT, tool_choice={"type": WRONG_VALUE}),
            a_body(PROMPT, model=WRONG_VALUE) | {"messages": [{"role": WRONG_VALUE, "content": PROMPT}]},
            a_body([{"type": "image", "source": {"type": "base64", "data": PROMPT}}]),  # type: ignore[arg-type]
            a_body(PROMPT, max_tokens=10**6),
            a_body(PROMPT, tools=[{"name": TOOL_NAME, "input_schema": {"$ref": SCHEMA}}], tool_choice={"type": "any"}),
            a_body(PROMPT + "\ud800"),
            json.dumps(a_body(PROMPT)).encode()[:-9] + b"\xff",
            f'{{"model": "default", {PROMPT}'.encode(),
            b"[" * 100_000,
        ):
            self.post("/v1/messages", body, 400)
        self.post("/v1/messages", a_body(PROMPT, model=WRONG_VALUE), 404)
        self.post("/v1/messages", a_body(PROMPT * 400_000), 413)
        self.post("/v1/messages", a_body(PROMPT), 400, **{"x-sluice-on-disconnect": HEADER})
        self.post(
            "/v1/chat/completions", {"model": "default", "messages": [{"role": "user", "content": 7}], "n": PROMPT}, 400
        )
        for path in ("/v1/messages", "/v1/requests", "/v1/organization/keys", f"/v1/{PROMPT}"):
            for key in (WRONG_KEY, NO_KEY):
                for headers in ({"x-api-key": key}, {"authorization": f"Bearer {key}"}):
                    r = httpx.request("GET" if "o" in path else "POST", self.product.url + path, headers=headers)
                    assert r.status_code in (401, 404, 405), r.text
        for url in (
            f"/v1/requests?key={self.key}",
            f"/v1/streams/msg_1?token={NO_KEY}",
            f"/{self.key}",
            "/admin/?q=%ff" + PROMPT,
        ):
            assert httpx.get(self.product.url + url, headers=self.headers).status_code < 500
        with socket.create_connection(("127.0.0.1", self.product.port)) as raw:  # what is no HTTP
            raw.sendall(
                f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {self.key}\r\n{HEADER}\r\n\r\n{PROMPT}".encode()
            )
            raw.recv(1000)

    def endings(self) -> None:
        """A stream that is cancelled, one whose client leaves, one whose worker dies, one by its token."""
        body = a_body(PROMPT, max_tokens=3000)
        r = self.post("/v1/streams", body, 202).json()
        self.secrets["stream token"] = httpx.URL(r["stream_url"]).params["token"].rpartition(".")[2]
        with httpx.stream("GET", self.product.url + r["stream_url"], timeout=60) as response:
            lines = response.iter_lines()
            next(line for line in lines if "content_block_delta" in line)
            for pid in self.product.processes("-m inference"):
                os.kill(pid, signal.SIGKILL)
            next(line for line in lines if "content_block_delta" in line)
            httpx.delete(f"{self.product.url}/v1/streams/{r['id']}", headers=self.headers)
            assert any("message_stop" in line for line in lines)
        assert httpx.get(self.product.url + r["stream_url"] + "x").status_code == 401
        with httpx.stream(
            "POST", self.product.url + "/v1/messages", json=body | {"stream": True}, headers=self.headers
        ) as response:
            next(response.iter_lines())
        self.num_admitted += 1

    def keys(self) -> None:
        url = "/v1/organization/keys"
        made = self.post(url, {"name": "second"}, 201).json()
        self.secrets["key made by API"] = made["key"]
        self.secrets["rotated key"] = self.post(f"{url}/{made['id']}/rotate", {}, 200).json()["key"]
        self.post(url, {"name": WRONG_VALUE, WRONG_FIELD: 1}, 400)
        httpx.get(self.product.url + "/v1/requests", headers={"x-api-key": made["key"]})

    def admin(self) -> None:
        make = (
            f"from django.contrib.auth.models import User; User.objects.create_superuser('root', password='{PASSWORD}')"
        )
        self.product.manage("shell", "-c", make)
        url = self.product.url + "/admin"
        with httpx.Client(follow_redirects=True) as browser:
            page = browser.get(f"{url}/login/")
            for password in (NO_KEY, PASSWORD):
                form = {
                    "username": "root",
                    "password": password,
                    "csrfmiddlewaretoken": field(page, "csrfmiddlewaretoken"),
                }
                page = browser.post(f"{url}/login/?next=/admin/", data=form)
            assert "Log out" in page.text
            self.secrets["session"] = browser.cookies["sessionid"]
            page = browser.get(f"{url}/accounts/apikey/add/")
            organization = httpx.get(self.product.url + "/v1/organization", headers=self.headers).json()["id"]
            form = {name: field(page, name) for name in ("csrfmiddlewaretoken", "new_id")}
            form |= {"organization": organization, "name": "third", "scopes": "inference"}
            page = browser.post(f"{url}/accounts/apikey/add/", data=form)
            found = re.search(r"sk-sluice-\w{8}-\w{43}", page.text)
            assert found, page.text
            self.secrets["key made by admin"] = found[0]
            browser.get(f"{url}/records/requestrecord/?q={PROMPT}")

    def batch(self) -> None:
        requests = [{"custom_id": f"zq-{i}", "params": a_body(f"SLUICE-SAY: {ANSWER} {PROMPT}")} for i in range(3)]
        batches = "/v1/messages/batches"
        made = self.post(batches, {"requests": requests}, 200).json()
        url = f"{self.product.url}{batches}/{made['id']}"
        while httpx.get(url, headers=self.headers).json()["processing_status"] != "ended":
            time.sleep(0.1)
        assert ANSWER in httpx.get(f"{url}/results", headers=self.headers).text
        assert httpx.delete(url, headers=self.headers).status_code == 200
        self.num_admitted += 3


def field(page: httpx.Response, name: str) -> str:
    """The value of a form's hidden field."""
    tag = next(tag for tag in re.findall(r"<input[^>]*>", page.text) if f'name="{name}"' in tag)
    found = re.search(r'value="([^"]*)"', tag)
    assert found
    return found[1]
