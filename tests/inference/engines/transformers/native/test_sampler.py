"""The native sampler draws as the one on torch."""

from __future__ import annotations

import ctypes

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.engines.transformers.native.sampler import NativeSampler
from inference.engines.transformers.sampling import Draw, Sampler
from inference.protocol.requests import Sampling

VOCAB = 5003  # no whole number of vectors


@pytest.fixture(scope="module")
def native(kernels: ctypes.CDLL) -> NativeSampler:
    return NativeSampler(kernels, VOCAB)


@pytest.fixture(scope="module")
def plain() -> Sampler:
    return Sampler(VOCAB, torch.device("cpu"))


def logits_of(rows: int, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * spread


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.1, 0.7, 1.0, 2.0]),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    top_k=st.sampled_from([0, 1, 2, 50, VOCAB, VOCAB + 1, 2**32 + 1]),
    seed=st.integers(0, 2**63 - 1),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(samplings, st.integers(0, 10_000)), min_size=1, max_size=6), st.integers(0, 100))
def test_it_works(native: NativeSampler, plain: Sampler, wanted: list[tuple[Sampling, int]], seed: int) -> None:
    draws = [Draw(sampling, position) for sampling, position in wanted]
    logits = logits_of(len(draws), seed)
    drawn, expected = native.sample(logits.clone(), draws), plain.sample(logits.clone(), draws)
    assert [a for a, b in zip(drawn, expected, strict=True) if a != b] == []


def test_draws_follow_the_weights(native: NativeSampler) -> None:
    logits = torch.full((4000, VOCAB), -torch.inf)
    logits[:, 7], logits[:, 4999] = 0.0, torch.tensor(3.0).log()
    tokens = native.sample(logits, [Draw(Sampling(seed=seed), 3) for seed in range(4000)])
    assert set(tokens) == {7, 4999}
    assert 0.72 < tokens.count(4999) / 4000 < 0.78


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_row_that_holds_no_number_gives_none(native: NativeSampler, value: float) -> None:
    logits = logits_of(3)
    logits[1, 17] = value
    tokens = native.sample(logits, [Draw(Sampling(temperature=0), 0)] * 3)
    assert tokens[1] is None
    assert None not in (tokens[0], tokens[2])


def test_equal_logits_keep_to_top_k(native: NativeSampler) -> None:
    drawn = native.sample(torch.zeros(500, VOCAB), [Draw(Sampling(top_k=3, seed=s), 0) for s in range(500)])
    assert set(drawn) == {0, 1, 2}
