from __future__ import annotations

import asyncio
import socket

import pytest

from config.readiness import ask, complain_of_port, url_of


async def answering(answer: bytes) -> asyncio.Server:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0)


async def test_it_works() -> None:
    answer = (
        b"HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nno wo\r\n4\r\nrker\r\n0\r\n\r\n"
    )
    async with await answering(answer) as server:
        port = server.sockets[0].getsockname()[1]

        assert await ask("0.0.0.0", port, "/readyz") == (503, "no worker")


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_it_takes_a_broken_answer_for_none(answer: bytes) -> None:
    async with await answering(answer) as server:
        assert await ask("127.0.0.1", server.sockets[0].getsockname()[1], "/readyz") == (0, "")


async def test_it_takes_silence_for_none() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()

        assert await ask("127.0.0.1", silent.getsockname()[1], "/readyz", timeout=0.05) == (0, "")


def test_a_free_port_gives_no_reason() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    assert complain_of_port("127.0.0.1", port) is None


def test_an_address_of_another_machine_gives_one() -> None:
    assert complain_of_port("192.0.2.1", 8000)


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("0.0.0.0", "http://127.0.0.1:80"), ("::", "http://[::1]:80")],
)
def test_a_url_names_an_address_that_can_be_reached(host: str, url: str) -> None:
    assert url_of(host, 80) == url
