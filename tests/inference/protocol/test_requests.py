"""What crosses a process border comes back as it was."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.reports import Delivery, Settlement
from inference.protocol.requests import GenerationRequest, Sampling

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
    created_at=st.floats(0, 1e10),
)


@given(requests)
def test_a_request_survives_the_queue(request: GenerationRequest) -> None:
    assert GenerationRequest.decode(request.encode()) == request


def test_fields_of_a_newer_version_are_left_out() -> None:
    request = GenerationRequest(id="msg_1", model="m", organization="o", key="k", prompt_ids=(1,), texts=("x",),
                                max_tokens=5, created_at=1.0)  # fmt: skip
    newer = json.dumps(json.loads(request.encode()) | {"version": 99, "colour": "red"})
    assert GenerationRequest.decode(newer) == request


def test_reports_survive_their_streams() -> None:
    settlement = Settlement(id="msg_1", organization="o", key="k", model="m", created_at=1.0, input_tokens=3,
                            outcome="end_turn", output_tokens=0, attempts=1, worker="w", finished_at=2.0,
                            queue_ms=0.5, generation_ms=10.0)  # fmt: skip
    assert Settlement.decode(settlement.encode()) == settlement
    delivery = Delivery(id="msg_1", organization="o", key="k", model="m", created_at=1.0, input_tokens=3, gateway="g",
                        streamed=True, ttft_ms=None, stream_ms=None, tbt_p99_ms=None, total_ms=3.0, bytes_sent=0,
                        stages={"auth_ms": 0.1})  # fmt: skip
    assert Delivery.decode(delivery.encode()) == delivery
