"""HTTP/1.1 connections: how long a client may take, and what it hears when it is refused."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.streaming.serving import Process, drip, is_cut, make_certificate, read_to_the_end

RECEIVE_S, IDLE_S, LINGER_S, CLOSING_S = 0.8, 1.2, 1.5, 0.6  # of server_app.py
SOON_S = 6.0  # on a machine that is busy
HEAD = b"POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
LARGE = 10_000_000  # far more than sockets hold


@pytest.fixture(scope="module")
def server() -> Iterator[Process]:
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_server(certificate: tuple[Path, Path]) -> Iterator[Process]:
    with running(*map(str, certificate)) as made:
        yield made


@pytest.fixture
def trust(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


@contextmanager
def running(*arguments: str) -> Iterator[Process]:
    made = Process(*arguments)
    yield made
    made.stop()


def parted(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert int(headers["content-length"]) == len(body)
    return int(first.split()[1]), headers, json.loads(body)


class TestDeadlines:
    def test_a_connection_that_sends_nothing_is_closed(self, server: Process) -> None:
        began = time.monotonic()
        assert server.raw(b"") == b""
        assert RECEIVE_S * 0.9 < time.monotonic() - began < SOON_S

    @pytest.mark.parametrize(
        ("begun", "piece"), [(b"G", b""), (b"\r\n", b"a"), (b"GET /fast/1 HTTP/1.1", b"a"), (HEAD, b""), (HEAD, b"a")]
    )
    def test_a_head_that_is_never_complete(self, server: Process, begun: bytes, piece: bytes) -> None:
        began = time.monotonic()
        with server.connect() as sock:
            sock.sendall(begun)
            status, headers, body = parted(drip(sock, piece))
        assert (status, body["error"]["type"], headers["connection"]) == (408, "timeout_error", "close")
        assert time.monotonic() - began < SOON_S

    def test_dripped_headers(self, server: Process) -> None:
        with server.connect() as sock:
            sock.sendall(HEAD)
            assert parted(drip(sock, b"a: b\r\n"))[0] == 408

    def test_a_dripped_body(self, server: Process) -> None:
        with server.connect() as sock:
            sock.sendall(HEAD + b"content-length: 500\r\n\r\n")
            assert parted(drip(sock, b"a"))[0] == 408

    def test_an_idle_connection_is_closed_in_silence(self, server: Process) -> None:
        with server.connect() as sock:
            sock.sendall(b"GET /fast/1 HTTP/1.1\r\nhost: x\r\n\r\n")
            began = time.monotonic()
            answer = read_to_the_end(sock)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert IDLE_S * 0.9 < time.monotonic() - began < SOON_S

    def test_the_next_request_has_its_time_too(self, server: Process) -> None:
        with server.connect() as sock:
            sock.sendall(b"GET /fast/1 HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = drip(sock, b"a")
        assert answer.count(b"HTTP/1.1 408 ") == 1

    def test_a_stream_may_be_silent_for_longer(self, server: Process) -> None:
        began = time.monotonic()
        assert b"wait" in server.get("/wait/1.9")
        assert time.monotonic() - began > 1.8

    def test_who_does_not_take_the_end_of_an_answer_is_cut_off(self, server: Process) -> None:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(b"GET /big/10000000 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert is_cut(sock, within_s=SOON_S)

    def test_who_takes_it_slowly_gets_it_all(self, server: Process) -> None:
        size = 400_000
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(b"GET /big/%d HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % size)
            got, began = b"", time.monotonic()
            while piece := sock.recv(8192):
                got += piece
                time.sleep(0.05)
        assert len(got) > size
        assert time.monotonic() - began > CLOSING_S * 2


class TestDeadlinesOverTls:
    @pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01"])
    def test_a_handshake_that_is_never_complete(self, tls_server: Process, hello: bytes) -> None:
        with tls_server.connect() as sock:
            sock.sendall(hello)
            assert is_cut(sock, within_s=SOON_S)

    def test_silence_after_the_handshake(self, tls_server: Process, trust: ssl.SSLContext) -> None:
        with tls_server.connect() as plain, trust.wrap_socket(plain, server_hostname="localhost") as sock:
            assert read_to_the_end(sock) == b""

    def test_a_dripped_head(self, tls_server: Process, trust: ssl.SSLContext) -> None:
        with tls_server.connect() as plain, trust.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(HEAD)
            assert parted(drip(sock, b"a: b\r\n"))[0] == 408

    def test_who_does_not_say_goodbye_is_cut_off(self, tls_server: Process, trust: ssl.SSLContext) -> None:
        with tls_server.connect() as plain, trust.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(b"GET /fast/1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert read_to_the_end(sock).endswith(b"0\r\n\r\n")
            assert is_cut(sock, within_s=SOON_S)


class TestLargeBodies:
    """A refusal is read even by those who send everything first."""

    def test_by_a_socket(self, server: Process) -> None:
        with server.connect() as sock:
            sock.sendall(HEAD + b"content-length: %d\r\n\r\n" % LARGE)
            sock.sendall(b"x" * LARGE)
            status, headers, body = parted(read_to_the_end(sock))
        assert (status, body["error"]["type"], headers["connection"]) == (413, "request_too_large", "close")

    def test_by_httpx(self, server: Process) -> None:
        r = httpx.post(f"http://127.0.0.1:{server.port}/echo", content=b"x" * LARGE)
        assert (r.status_code, r.json()["error"]["type"]) == (413, "request_too_large")

    @pytest.mark.parametrize(("path", "size", "status"), [("/larger?a=b", 2000, 200), ("/larger", 2001, 413)])
    def test_a_path_may_take_more(self, server: Process, path: str, size: int, status: int) -> None:
        assert httpx.post(f"http://127.0.0.1:{server.port}{path}", content=b"x" * size).status_code == status

    def test_in_chunks(self, server: Process) -> None:
        pieces = (b"x" * 100_000 for _ in range(100))
        r = httpx.post(f"http://127.0.0.1:{server.port}/echo", content=pieces)
        assert (r.status_code, r.json()["error"]["type"]) == (413, "request_too_large")

    def test_by_the_standard_library(self, server: Process) -> None:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        client.request("POST", "/echo", body=b"x" * LARGE)
        assert client.getresponse().status == 413
        client.close()

    def test_over_tls(self, tls_server: Process, trust: ssl.SSLContext) -> None:
        r = httpx.post(f"https://localhost:{tls_server.port}/echo", content=b"x" * LARGE, verify=trust)
        assert (r.status_code, r.json()["error"]["type"]) == (413, "request_too_large")

    def test_a_request_that_follows_is_not_served(self, server: Process) -> None:
        with server.connect() as sock:
            sock.sendall(HEAD + b"content-length: 1001\r\n\r\n" + b"x" * 1001)
            sock.sendall(b"GET /fast/1 HTTP/1.1\r\nhost: x\r\n\r\n")
            assert read_to_the_end(sock).count(b"HTTP/1.1") == 1

    @pytest.mark.parametrize(("size", "pause_s"), [(10, 0.05), (1_000_000, 0.0)], ids=["for ever", "without end"])
    def test_who_goes_on_and_on_is_cut_off(self, server: Process, size: int, pause_s: float) -> None:
        def send_on(sock: socket.socket) -> None:
            while time.monotonic() - began < SOON_S * 2:
                sock.sendall(b"x" * size)
                time.sleep(pause_s)

        began = time.monotonic()
        with server.connect() as sock:
            sock.sendall(HEAD + b"content-length: 1000000000\r\n\r\n")
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                send_on(sock)
        assert time.monotonic() - began < SOON_S


class TestRefusals:
    @pytest.mark.parametrize(
        ("request_", "status", "said"),
        [
            (b"nonsense\r\n\r\n", 400, "HTTP/1.1"),
            (HEAD + b"no colon\r\n\r\n", 400, "HTTP/1.1"),
            (HEAD + b"content-length: many\r\n\r\n", 400, "HTTP/1.1"),
            (HEAD + b"transfer-encoding: chunked\r\n\r\nnonsense\r\n", 400, "HTTP/1.1"),
            (HEAD + b"sp@ce: x\r\n\r\n", 400, "HTTP/1.1"),
            (HEAD + b"null: \x00\r\n\r\n", 400, "HTTP/1.1"),
            (b"GET /\xff HTTP/1.1\r\n\r\n", 400, "HTTP/1.1"),
            (b"GET /" + b"x" * 17_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "URL"),
            (HEAD + b"long: " + b"x" * 17_000 + b"\r\n\r\n", 431, "header"),
            (HEAD + b"more: x\r\n" * 600 + b"\r\n", 431, "500 headers"),
            (HEAD + b"long: %b\r\n" % (b"x" * 1000) * 20 + b"\r\n", 431, "headers"),
        ],
    )
    def test_the_answer_has_our_form(self, server: Process, request_: bytes, status: int, said: str) -> None:
        got, headers, body = parted(server.raw(request_))
        assert (got, body["error"]["type"]) == (status, "invalid_request_error")
        assert said in body["error"]["message"]
        assert body["request_id"] == headers["request-id"] == headers["x-request-id"]

    def test_a_failure_of_ours(self, server: Process) -> None:
        answer = server.raw(b"GET /fail HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert parted(answer)[2]["error"]["type"] == "api_error"

    def test_openais_form_on_openais_path(self, server: Process) -> None:
        path = b"POST /v1/chat/completions?a=b HTTP/1.1\r\nhost: x\r\ncontent-length: 1001\r\n\r\n"
        status, headers, body = parted(server.raw(path))
        assert status == 413
        assert body == {"error": body["error"]}
        assert body["error"].keys() == {"message", "type", "param", "code"}
        assert headers["x-request-id"].startswith("req_")

    @pytest.mark.parametrize(
        "more", [b"content-length: 1001\r\n\r\n", b"no colon\r\n\r\n", b"content-length: 5\r\n\r\n"]
    )
    def test_pages_of_other_origins_may_read_it(self, server: Process, more: bytes) -> None:
        _, headers, _ = parted(server.raw(HEAD + b"origin: https://shop.example\r\n" + more))
        assert headers["access-control-allow-origin"] == "https://shop.example"
