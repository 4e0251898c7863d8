from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loadtest.wire import Frames, Response, decode_event

pieces = st.lists(st.integers(0, 400), max_size=12)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """Cut bytes at some places."""
    places = [0, *sorted(min(place, len(data)) for place in at), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=6), pieces)
def test_chunks_give_the_body_however_they_are_cut(bodies: list[bytes], at: list[int]) -> None:
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(body), body) for body in bodies)
    response = Response()

    got = [response.feed(piece) for piece in cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" + chunks, at)]

    assert b"".join(got) == b"".join(bodies)
    assert not response.ended
    response.feed(b"0\r\n\r\n")
    assert response.ended


@given(st.binary(max_size=200), pieces)
def test_a_length_ends_the_body(body: bytes, at: list[int]) -> None:
    response = Response()
    head = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: %d\r\n\r\n" % len(body)

    got = [response.feed(piece) for piece in cut(head + body, at)]

    assert (response.status, b"".join(got), response.ended) == (503, body, True)


def test_a_body_of_unknown_length_ends_with_the_connection() -> None:
    response = Response()

    assert response.feed(b"HTTP/1.0 200\r\n\r\nabc") == b"abc"
    assert not response.ended
    response.close()
    assert response.ended


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    ],
)
def test_it_rejects_what_is_no_response(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # which one does not matter
        Response().feed(data)


@given(st.lists(st.text("ab {}:", min_size=1).map(str.strip).filter(bool), max_size=5), pieces)
def test_frames_give_the_data_however_they_are_cut(texts: list[str], at: list[int]) -> None:
    stream = "".join(f": a comment\nid: 1\nevent: x\ndata: {text}\n\n" for text in texts).encode()
    frames = Frames()

    got = [data for piece in cut(stream, at) for data in frames.feed(piece)]

    assert got == [text.encode() for text in texts]


def test_an_event_without_data_is_none() -> None:
    assert Frames().feed(b": ping\n\nretry: 5\n\n") == []


def test_it_reads_the_fields_of_events() -> None:
    event = decode_event(b'{"type":"message_delta","delta":{"stop_reason":"x","new":1},"usage":{"output_tokens":7}}')

    assert event.delta is not None
    assert event.usage is not None
    assert (event.type, event.delta.stop_reason, event.usage.output_tokens) == ("message_delta", "x", 7)
