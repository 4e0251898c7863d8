"""HTTP/2 over TLS, by a real client."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TypeVar

import h2.connection
import h2.errors
import h2.events
import h2.settings
import httpx
import pytest

from tests.streaming.serving import Process, drip, is_cut, make_certificate

IDLE_S, SOON_S = 1.2, 6.0  # of server_app.py
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INITIAL_WINDOW_SIZE = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
T = TypeVar("T", bound=h2.events.Event)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path]) -> Iterator[Process]:
    made = Process(*map(str, certificate))
    yield made
    made.stop()


@pytest.fixture
def trust(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


def url_of(server: Process, path: str) -> str:
    return f"https://localhost:{server.port}{path}"


async def test_streams_share_a_connection(server: Process, trust: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
        answers = await asyncio.gather(*(client.get(url_of(server, f"/fast/{n}")) for n in (3, 200, 50)))
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert [answer.text.splitlines()[-1] for answer in answers] == ["2", "199", "49"]


async def test_a_body_that_is_too_long_is_refused(server: Process, trust: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
        refused = await client.post(url_of(server, "/echo"), content=b"x" * 2000)
        assert (refused.status_code, refused.json()["error"]["type"]) == (413, "request_too_large")
        assert (await client.post(url_of(server, "/echo"), content=b"fine")).content == b"fine"


async def test_a_dropped_stream_leaves_the_others(server: Process, trust: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(url_of(server, "/drop"))
        assert (await client.get(url_of(server, "/fast/2"))).text == "0\n1\n1\n"


def test_http_1_over_tls(server: Process, trust: ssl.SSLContext) -> None:
    with httpx.Client(verify=trust) as client:
        answer = client.get(url_of(server, "/fast/100"))
    assert (answer.http_version, answer.text.splitlines()[-1]) == ("HTTP/1.1", "99")


def written(server: Process, trust: ssl.SSLContext) -> int:
    return int(httpx.get(url_of(server, "/written/fast"), verify=trust).text)


class Client:
    """A connection that sends what it likes."""

    takes = True  # whether what it has read makes room for more

    def __init__(self, server: Process, trust: ssl.SSLContext) -> None:
        trust.set_alpn_protocols(["h2"])
        self.socket = trust.wrap_socket(server.connect(), server_hostname="localhost")
        self.h2 = h2.connection.H2Connection()
        self.events: list[h2.events.Event] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def begin(self, *, window: int = 65535) -> None:
        """Send the preface, with settings that let so much of a response come."""
        self.h2.local_settings = h2.settings.Settings(initial_values={INITIAL_WINDOW_SIZE: window})
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def ask(self, path: str, method: str = "GET", *, end: bool = True, **headers: str) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        pairs = {":method": method, ":path": path, ":scheme": "https", ":authority": "localhost"}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        self.h2.send_headers(stream_id, list((pairs | more).items()), end_stream=end)
        self.flush()
        return stream_id

    def until(self, kind: type[T]) -> T:
        """Read until there is such an event."""
        while not (found := [event for event in self.events if isinstance(event, kind)]):
            assert self.read(), f"the server closed before a {kind.__name__}"
        return found[0]

    def read(self) -> bool:
        """Take in what came; False at the end."""
        data = self.socket.recv(65536)
        for event in self.h2.receive_data(data):
            self.events.append(event)
            if self.takes and isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if data:
            self.flush()
        return bool(data)


@pytest.fixture
def client(server: Process, trust: ssl.SSLContext) -> Iterator[Client]:
    with Client(server, trust) as made:
        yield made


class TestDeadlines:
    @pytest.mark.parametrize("sent", [b"", b"PRI * HT", PREFACE])
    def test_a_connection_without_streams_is_closed(self, client: Client, sent: bytes) -> None:
        began = time.monotonic()
        client.socket.sendall(sent)
        drip(client.socket, b"")
        assert time.monotonic() - began < SOON_S

    def test_dripped_frames(self, client: Client) -> None:
        client.begin()
        began = time.monotonic()
        client.socket.sendall(b"\x00\x40\x00\x01\x04\x00\x00\x00\x01")  # headers of 16 KB
        drip(client.socket, b"x")
        assert time.monotonic() - began < SOON_S

    def test_pings_are_no_requests(self, client: Client) -> None:
        client.begin()
        client.ask("/fast/1")
        client.until(h2.events.StreamEnded)
        began = time.monotonic()
        drip(client.socket, b"\x00\x00\x08\x06\x00\x00\x00\x00\x00pingpong")
        assert IDLE_S * 0.9 < time.monotonic() - began < SOON_S

    def test_a_stream_may_be_silent_for_longer(self, client: Client) -> None:
        client.begin()
        client.ask("/wait/1.9")
        client.until(h2.events.StreamEnded)

    def test_a_body_that_comes_too_slowly(self, client: Client) -> None:
        client.begin()
        client.ask("/echo", "POST", end=False)
        status = dict(client.until(h2.events.ResponseReceived).headers)[b":status"]
        assert (status, json.loads(client.until(h2.events.DataReceived).data)["error"]["type"]) == (
            b"408",
            "timeout_error",
        )
        client.until(h2.events.StreamEnded)
        assert client.until(h2.events.StreamReset).error_code == h2.errors.ErrorCodes.NO_ERROR

    def test_the_others_go_on(self, client: Client) -> None:
        client.begin()
        waiting = client.ask("/wait/1.9")
        late = client.ask("/echo", "POST", end=False)
        assert client.until(h2.events.StreamEnded).stream_id == late
        client.events.clear()
        assert client.until(h2.events.StreamEnded).stream_id == waiting


class TestLargeBodies:
    @pytest.mark.parametrize(("path", "size", "status"), [("/larger?a=b", 2000, 200), ("/larger", 2001, 413)])
    async def test_a_path_may_take_more(
        self, server: Process, trust: ssl.SSLContext, path: str, size: int, status: int
    ) -> None:
        async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
            assert (await client.post(url_of(server, path), content=b"x" * size)).status_code == status

    @pytest.mark.parametrize("announced", [True, False])
    async def test_a_client_that_sends_all_first_reads_the_answer(
        self, server: Process, trust: ssl.SSLContext, announced: bool
    ) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 50_000

        async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
            content = b"x" * 5_000_000 if announced else pieces()
            r = await client.post(url_of(server, "/echo"), content=content)
            assert (r.status_code, r.json()["error"]["type"]) == (413, "request_too_large")
            assert (await client.get(url_of(server, "/fast/2"))).text == "0\n1\n1\n"

    def test_who_never_ends_is_cut_off(self, client: Client) -> None:
        client.begin()
        stream_id = client.ask("/echo", "POST", end=False, content_length="1001", origin="https://shop.example")
        headers = dict(client.until(h2.events.ResponseReceived).headers)
        assert (headers[b":status"], headers[b"access-control-allow-origin"]) == (b"413", b"https://shop.example")
        began = time.monotonic()
        assert client.until(h2.events.StreamReset).stream_id == stream_id
        assert time.monotonic() - began < SOON_S

    def test_who_does_not_take_the_answer_is_cut_off(self, client: Client) -> None:
        client.begin(window=0)
        client.ask("/echo", "POST", end=False, content_length="1001")
        client.until(h2.events.StreamReset)


class TestFlowControl:
    async def test_more_than_a_window(self, server: Process, trust: ssl.SSLContext) -> None:
        async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
            answers = await asyncio.gather(*(client.get(url_of(server, "/big/1000000")) for _ in range(3)))
        assert [len(answer.content) for answer in answers] == [1_000_000] * 3

    @pytest.mark.parametrize("by", ["update", "settings"])
    def test_a_window_that_opens_later(self, client: Client, by: str) -> None:
        client.takes = False
        client.begin(window=4)
        stream_id = client.ask("/big/10")
        assert client.until(h2.events.DataReceived).data == b"xxxx"
        client.events.clear()
        if by == "update":
            client.h2.increment_flow_control_window(6, stream_id)
        else:
            client.h2.update_settings({INITIAL_WINDOW_SIZE: 10})
        client.flush()
        assert client.until(h2.events.DataReceived).data == b"xxxxxx"
        client.until(h2.events.StreamEnded)

    @pytest.mark.parametrize("path", ["/big/10", "/flood/slow"])
    def test_a_closed_window_costs_nothing(self, server: Process, client: Client, path: str) -> None:
        client.begin(window=0)
        client.ask(path)
        client.until(h2.events.ResponseReceived)
        before = server.cpu_s
        time.sleep(1)
        assert server.cpu_s - before < 0.3

    @pytest.mark.parametrize("path", ["/big/10", "/flood/slow"])
    def test_who_never_opens_it_is_cut_off(self, client: Client, path: str) -> None:
        client.begin(window=0)
        client.ask(path)
        assert client.until(h2.events.StreamReset).stream_id == 1

    def test_a_reader_that_stops_holds_the_sender(self, server: Process, client: Client, trust: ssl.SSLContext) -> None:
        client.begin(window=2**31 - 1)
        client.h2.increment_flow_control_window(2**31 - 1 - 65535)
        client.flush()
        before = written(server, trust)
        client.ask("/flood/fast")
        client.until(h2.events.DataReceived)
        held = -1
        while (now := written(server, trust) - before) > held:
            held = now
            time.sleep(0.3)
        assert 0 < held < 6000
        assert is_cut(client.socket, within_s=SOON_S)

    def test_one_that_is_taken_back_after_its_answer(self, client: Client) -> None:
        """The answer is ready for over a second, in which Daphne forgets the request."""
        client.begin(window=0)
        stream_id = client.ask("/big/10")
        client.until(h2.events.ResponseReceived)
        time.sleep(1.5)
        client.h2.reset_stream(stream_id)
        client.flush()
        client.events.clear()
        client.ask("/fast/1")
        client.until(h2.events.ResponseReceived)


def test_what_daphne_refuses_has_our_form(client: Client) -> None:
    client.begin()
    client.ask("/\u00e9")
    status = dict(client.until(h2.events.ResponseReceived).headers)[b":status"]
    error = json.loads(client.until(h2.events.DataReceived).data)["error"]
    assert (status, error) == (b"400", {"type": "invalid_request_error", "message": "Invalid characters in path."})
