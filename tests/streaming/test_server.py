"""Our server, over real sockets."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator

import pytest

from tests.streaming.serving import Process, read_to_the_end


@pytest.fixture(scope="module")
def server() -> Iterator[Process]:
    made = Process()
    yield made
    assert made.stop().split() == ["draining", "closed"]


def body_of(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[2]


def test_the_short_way_writes_the_same_bytes(server: Process) -> None:
    slow, fast = (
        body_of(server.raw(b"GET /%s/300 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % kind))
        for kind in (b"slow", b"fast")
    )
    assert fast == slow
    assert fast.endswith(b"0\r\n\r\n")


def test_http_1_0_takes_the_long_way(server: Process) -> None:
    slow, fast = (body_of(server.raw(b"GET /%s/300 HTTP/1.0\r\n\r\n" % kind)) for kind in (b"slow", b"fast"))
    assert fast == slow
    assert fast.startswith(b"0\n1\n1\n")


def test_a_connection_is_used_again(server: Process) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    for _ in range(3):
        client.request("POST", "/echo", body=b"hello")
        assert client.getresponse().read() == b"hello"
        client.request("GET", "/fast/20")
        assert client.getresponse().read().endswith(b"19\n")
    client.close()


def test_pipelined_requests_are_answered_in_order(server: Process) -> None:
    one, last = (
        b"GET /fast/3 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    answer = server.raw(one + one + last)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.count(b"2\n2\n2\n") == 2


@pytest.mark.parametrize("way", ["fast", "slow"])
def test_a_reader_that_stops_holds_the_sender(server: Process, way: str) -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(b"GET /flood/%s HTTP/1.1\r\nhost: x\r\n\r\n" % way.encode())
        sock.recv(1)
        held = -1
        while (now := int(server.get(f"/written/{way}"))) > held:
            held = now
            time.sleep(0.3)  # a sender that is not held would write thousands in this time
    assert 0 < held < 3000


def test_a_body_that_is_announced_too_long_is_refused_unread(server: Process) -> None:
    answer = server.raw(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1001\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"request_too_large" in answer


def test_a_chunked_body_is_refused_once_it_is_too_long(server: Process) -> None:
    chunk = b"258\r\n" + b"x" * 600 + b"\r\n"
    answer = server.raw(b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunk + chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_request_that_comes_too_slowly_is_refused(server: Process) -> None:
    answer = server.raw(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"timeout_error" in answer


def test_a_failure_before_the_response_is_a_500(server: Process) -> None:
    assert server.raw(b"GET /fail HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").startswith(b"HTTP/1.1 500 ")


@pytest.mark.parametrize("path", [b"broken", b"drop"])
def test_a_response_that_is_cut_short_has_no_end(server: Process, path: bytes) -> None:
    with server.connect() as sock:
        sock.sendall(b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n" % path)
        with pytest.raises(ConnectionResetError):
            read_to_the_end(sock)
    assert server.get("/fast/2") == b"0\n1\n1\n", "and the server goes on"


def test_head_has_no_body(server: Process) -> None:
    request = b"HEAD /slow/5 HTTP/1.1\r\nhost: x\r\n\r\nGET /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    answer = server.raw(request)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert rest.startswith(b"HTTP/1.1 200 ")


def test_a_large_form_does_not_hold_the_server(server: Process) -> None:
    body = b"a&" * 400
    head = b"POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    answer = server.raw(head + b"content-length: %d\r\n\r\n" % len(body) + body)
    assert body in answer, "the body is the application's to read"


def test_no_go_ahead_follows_a_refusal(server: Process) -> None:
    answer = server.raw(b"POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in answer


@pytest.mark.parametrize("header", [b"daphne-root-path: /a", b"daphne-root-path: \xff", b"upgrade: websocket"])
def test_no_client_steers_daphne_by_a_header(server: Process, header: bytes) -> None:
    head = b"GET /scope HTTP/1.1\r\nhost: x\r\nconnection: close, upgrade\r\n"
    plain, steered = (server.raw(head + more + b"\r\n") for more in (b"", header + b"\r\n"))
    assert plain.startswith(b"HTTP/1.1 200 ")
    assert steered == plain


def test_it_stops_within_its_budget_whatever_is_open() -> None:
    server = Process()
    with server.connect() as waiting, server.connect() as stubborn:
        for sock, path in ((waiting, b"/wait/60"), (stubborn, b"/stubborn")):
            sock.sendall(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)
            assert sock.recv(1)
        begun = time.monotonic()
        assert server.stop().split() == ["draining", "closed"]
        assert time.monotonic() - begun < 2.0 + 0.5
