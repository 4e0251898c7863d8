"""What crosses a process border comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.reports import Delivery, Settlement, common_of
from inference.protocol.requests import VERSION, GenerationRequest, Grammar, NewerVersion, PayloadError, Sampling
from inference.protocol.tools import FORMATS, ToolUse
from tests.inference.tools import a_request

texts = st.text(max_size=20)
requests = st.builds(
    GenerationRequest,
    id=texts,
    model=texts,
    organization=texts,
    key=texts,
    prompt_ids=st.lists(st.integers(0, 1 << 20)).map(tuple),
    texts=st.lists(texts).map(tuple),
    max_tokens=st.integers(1),
    stop_sequences=st.lists(texts).map(tuple),
    sampling=st.builds(Sampling, temperature=st.floats(0, 2), seed=st.integers(0, 1 << 63)),
    tools=st.none() | st.builds(ToolUse, format=st.sampled_from(list(FORMATS)), names=st.lists(texts).map(tuple)),
    grammar=st.none() | st.builds(Grammar, texts, st.booleans()),
    created_at=st.floats(0, 1e10),
)


@given(requests)
def test_a_request_survives_the_queue(request: GenerationRequest) -> None:
    assert GenerationRequest.decode(request.encode()) == request


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(a_request().encode()) | changes)


def test_fields_that_we_do_not_know_are_left_out() -> None:
    newer = changed(colour="red", sampling={"temperature": 1.0, "min_p": 0.1})
    assert GenerationRequest.decode(newer) == a_request()


def test_it_refuses_a_newer_version() -> None:
    with pytest.raises(NewerVersion):
        GenerationRequest.decode(changed(version=VERSION + 1))


def test_only_what_an_older_worker_would_misread_is_of_a_newer_version() -> None:
    tools = ToolUse(format="hermes", names=("f",))
    requests = [a_request(), a_request(tools=tools), a_request(grammar=Grammar("start: TEXT"))]
    assert [json.loads(request.encode())["version"] for request in requests] == [1, 2, 2]


A_FORMAT_OF_TOMORROW = {"format": "yaml", "names": [], "parallel": True}


@pytest.mark.parametrize(
    "blob",
    [
        "secret", "[]", "{}", changed(sampling=7), changed(prompt_ids=None), b"\xff", changed(grammar="start"),
        changed(tools=A_FORMAT_OF_TOMORROW),
    ],
)  # fmt: skip
def test_it_tells_nothing_of_what_it_cannot_read(blob: str | bytes) -> None:
    with pytest.raises(PayloadError) as caught:
        GenerationRequest.decode(blob)
    assert str(caught.value).endswith("Error")
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("sampling", "problem"),
    [
        (Sampling(), ""),
        (Sampling(temperature=2, top_p=0, top_k=10**20), ""),
        (Sampling(temperature=float("nan")), "temperature"),
        (Sampling(temperature=float("inf")), "temperature"),
        (Sampling(temperature=-1), "temperature"),
        (Sampling(top_p=float("nan")), "top_p"),
        (Sampling(top_p=1.1), "top_p"),
        (Sampling(top_k=-1), "top_k"),
    ],
)
def test_sampling_knows_its_ranges(sampling: Sampling, problem: str) -> None:
    assert sampling.problem.partition(":")[0] == problem


def test_a_report_has_what_is_common_from_its_request() -> None:
    assert common_of(a_request()) == {
        "id": "msg_1", "organization": "org_1", "key": "key_1", "model": "m", "created_at": 1.0, "input_tokens": 3,
        "detached": False,
    }  # fmt: skip


def test_reports_survive_their_streams() -> None:
    settlement = Settlement(id="msg_1", organization="o", key="k", model="m", created_at=1.0, input_tokens=3,
                            outcome="end_turn", output_tokens=0, attempts=1, worker="w", finished_at=2.0,
                            queue_ms=0.5, generation_ms=10.0)  # fmt: skip
    assert Settlement.decode(settlement.encode()) == settlement
    delivery = Delivery(id="msg_1", organization="o", key="k", model="m", created_at=1.0, input_tokens=3, gateway="g",
                        streamed=True, ttft_ms=None, stream_ms=None, tbt_p99_ms=None, total_ms=3.0, bytes_sent=0,
                        stages={"auth_ms": 0.1})  # fmt: skip
    assert Delivery.decode(delivery.encode()) == delivery
