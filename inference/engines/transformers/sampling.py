"""Draw the next tokens of many rows at once, each with its own parameters and its own randomness."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

from inference.engines.transformers.guidance import Guide
from inference.protocol.requests import Sampling

logger = logging.getLogger(__name__)

COLDEST = 1e-5  # below this temperature the likeliest token has all the weight a float can tell
NUCLEUS_GUESS = 1024  # the likeliest tokens, among which `top_p` nearly always ends; sorting all costs seven times more
INT32_MASK = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Draw:
    """How to draw one token: `position` counts the tokens generated before it, `guide` says which may come."""

    sampling: Sampling
    position: int
    guide: Guide | None = None

    @property
    def is_greedy(self) -> bool:
        return self.sampling.temperature < COLDEST

    @property
    def is_limited(self) -> bool:
        return self.sampling.top_k > 0 or self.sampling.top_p < 1


class Sampler:
    """Draws by the exponential race: the token whose weight divided by an exponential draw is the largest wins.

    The draw of a token depends on its id, the seed and the position alone. So rounding errors, which differ with the
    company a sequence is computed in, matter only where two tokens all but tie. (On the cumulative distribution they
    would shift every border at once.)
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self._token_hashes = _mix(torch.arange(vocab_size, dtype=torch.int32, device=device).mul_(0x1E3779B1).add_(1))
        # The eight tokens that each byte of a mask does not allow.
        bits = torch.arange(256, device=device)[:, None] >> torch.arange(8, device=device)
        self._blocked = (bits & 1) == 0

    def sample(self, logits: Tensor, draws: list[Draw]) -> list[int | None]:
        """Return a token for each row of the logits [rows, vocab]; None where none can be drawn."""
        try:
            return self._sample(logits, draws)
        except torch.AcceleratorError:
            raise  # the device is lost
        except Exception as error:
            if len(draws) > 1:  # one row is no reason to fail the others
                return [token for row, draw in enumerate(draws) for token in self.sample(logits[row : row + 1], [draw])]
            logger.error("Drawing a token failed.", exc_info=error)
            return [None]

    def _sample(self, logits: Tensor, draws: list[Draw]) -> list[int | None]:
        self._block(logits, draws)
        return self._draw(logits, draws)

    def _draw(self, logits: Tensor, draws: list[Draw]) -> list[int | None]:
        best, tokens = logits.max(dim=-1)
        rows = [row for row, draw in enumerate(draws) if not draw.is_greedy]
        if rows:
            warm = torch.tensor(rows, device=logits.device)
            drawn = [draws[row] for row in rows]
            tokens[warm] = self._race(_weights(logits[warm], best[warm], drawn), drawn)
        return [token if ok else None for token, ok in zip(tokens.tolist(), best.isfinite().tolist(), strict=True)]

    def _block(self, logits: Tensor, draws: list[Draw]) -> None:
        """Take from each row that has a guide what may not come next."""
        guides = {row: draw.guide for row, draw in enumerate(draws) if draw.guide is not None}
        if not guides:
            return
        masks = bytearray().join(guide.mask() for guide in guides.values())
        packed = torch.frombuffer(masks, dtype=torch.uint8).to(logits.device).int()
        blocked = self._blocked.index_select(0, packed).view(len(guides), -1)[:, : logits.shape[-1]]
        for row, row_blocked in zip(guides, blocked, strict=True):
            logits[row].masked_fill_(row_blocked, -torch.inf)

    def _race(self, weights: Tensor, draws: list[Draw]) -> Tensor:
        limited = [row for row, draw in enumerate(draws) if draw.is_limited]
        if limited:
            rows = torch.tensor(limited, device=weights.device)
            weights[rows] = limit(weights[rows], [draws[row].sampling for row in limited])
        return weights.div_(self._exponentials(draws)).argmax(dim=-1)

    def _exponentials(self, draws: list[Draw]) -> Tensor:
        """Return exponential draws [rows, vocab], made by a hash of token, seed and position."""
        keys = torch.tensor([keys_of(draw) for draw in draws], dtype=torch.int32, device=self._token_hashes.device)
        bits = _mix((self._token_hashes ^ keys[:, :1]).mul_(keys[:, 1:] | 1)).bitwise_and_(INT32_MASK)
        # Never 0, which would win against any weight, nor 1, which would let the only candidate lose.
        uniforms = bits.float().add_(0.5).mul_(2**-31).clamp_(max=1 - 2**-24)
        return uniforms.neg_().log1p_().neg_()


def keys_of(draw: Draw) -> tuple[int, int]:
    """Return two int32 that seed and position make, for the hash of a draw."""
    digest = blake2b(f"{draw.sampling.seed}:{draw.position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], signed=True), int.from_bytes(digest[4:], signed=True)


def _mix(bits: Tensor) -> Tensor:
    """Let each bit of an int32 depend on all of them, in place (a `lowbias32` hash)."""
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
        bits.bitwise_xor_((bits >> shift).bitwise_and_(INT32_MASK >> (shift - 1))).mul_(factor)
    return bits.bitwise_xor_((bits >> 15).bitwise_and_(INT32_MASK >> 14))


def _weights(logits: Tensor, best: Tensor, draws: list[Draw]) -> Tensor:
    """Return the tokens' weights after temperature, the likeliest one's being 1; logits and weights [rows, vocab]."""
    temperatures = torch.tensor([draw.sampling.temperature for draw in draws], device=logits.device)
    return logits.float().sub_(best.float()[:, None]).div_(temperatures[:, None]).exp_()


def limit(weights: Tensor, samplings: list[Sampling]) -> Tensor:
    """Zero the weights [rows, vocab] outside each row's `top_k` likeliest, and then outside its `top_p` of the mass."""
    vocab_size = weights.shape[-1]
    width = max(_top_k(s, vocab_size) if s.top_k else min(NUCLEUS_GUESS, vocab_size) for s in samplings)
    limited, is_done = _limit_within(width, weights, samplings)
    missed = [row for row, done in enumerate(is_done.tolist()) if not done]
    if missed:
        limited[missed], _ = _limit_within(vocab_size, weights[missed], [samplings[row] for row in missed])
    return limited


def _limit_within(width: int, weights: Tensor, samplings: list[Sampling]) -> tuple[Tensor, Tensor]:
    """Limit the weights to what stays among the `width` likeliest; also tell which rows need no more than these."""
    vocab_size = weights.shape[-1]
    top_k = torch.tensor([[_top_k(s, vocab_size)] for s in samplings], device=weights.device)
    # The likeliest token always stays; a `top_p` of 1 must not lose the last ones to rounding.
    top_p = torch.tensor([[max(s.top_p, 1e-9) if s.top_p < 1 else torch.inf] for s in samplings], device=weights.device)
    values, ids = weights.topk(width, dim=-1)
    values.masked_fill_(torch.arange(width, device=weights.device) >= top_k, 0)
    mass = torch.where(top_k <= width, values.sum(-1, keepdim=True), weights.sum(-1, keepdim=True)) * top_p
    cumulative = values.cumsum(-1)
    is_done = (top_k <= width) | (cumulative[:, -1:] >= mass) | (width == vocab_size)
    values.masked_fill_(cumulative - values >= mass, 0)
    return torch.zeros_like(weights).scatter_(-1, ids, values), is_done[:, 0]


def _top_k(sampling: Sampling, vocab_size: int) -> int:
    return min(sampling.top_k or vocab_size, vocab_size)
