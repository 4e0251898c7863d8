"""Check the engine on a GPU, and measure it there: one file, a few minutes, no network.

    python benchmarks/gpu_check.py [--model FOLDER]

Without a model folder it makes models of the Llama family with random weights, one small and one of a billion
parameters: what is computed is checked, what is said is nonsense. Prints Markdown; exit status 1 when a check fails.

1. The same tokens as transformers' own `generate`, greedily in float32, for prompts of unlike lengths side by side.
2. A continuation from any token gives the rest; an answer drawn by seed is the same alone and in company (float32).
3. A request that does not fit the device's memory ends alone, and the engine goes on.
4. Tokens/s, TTFT and TPOT in bfloat16 at 1, 32 and 128 streams.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from inference.engines.base import EngineRequest, StepOutput
from inference.engines.transformers import TransformersEngine
from inference.protocol.requests import Sampling
from inference.protocol.settings import Settings

GREEDY = Sampling(temperature=0)
SMALL = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 8000, "max_position_embeddings": 2048}  # fmt: skip
LARGE = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 8192}  # fmt: skip
LENGTHS = (3, 16, 17, 120, 700)
PROMPT, ANSWER = 64, 64  # tokens of a measured request


def make(folder: Path, name: str, sizes: dict[str, Any], dtype: torch.dtype) -> None:
    """Save a model with random weights, large enough that no two tokens tie."""
    torch.manual_seed(0)
    config = LlamaConfig(**sizes, initializer_range=0.1, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(config)
    torch.nn.Module.to(model, "cpu", dtype).save_pretrained(folder / name)


def load(folder: Path, name: str, dtype: str, **changes: Any) -> TransformersEngine:
    return TransformersEngine.load(Settings(models=str(folder), model=name, dtype=dtype, kernels="torch", **changes))


def prompt_of(length: int, vocab_size: int) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(length)
    return tuple(torch.randint(0, vocab_size, (length,), generator=generator).tolist())


def run(engine: TransformersEngine, *requests: EngineRequest) -> dict[str, list[StepOutput]]:
    """Answer all requests at once."""
    for request in requests:
        engine.submit(request)
    outputs: dict[str, list[StepOutput]] = {request.id: [] for request in requests}
    left = len(requests)
    while left:
        for output in engine.step():
            outputs[output.id].append(output)
            left -= output.finish is not None
    return outputs


def tokens(outputs: list[StepOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


class Checks:
    """What was found out, in Markdown."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.failed = False

    def note(self, what: str, ok: bool, detail: str = "") -> None:
        self.failed |= not ok
        self.lines.append(f"- {'ok' if ok else 'FAILED'}: {what}{f' ({detail})' if detail else ''}")
        print(self.lines[-1], file=sys.stderr, flush=True)


def check_tokens(checks: Checks, folder: Path, name: str) -> None:
    """Compare with transformers' own `generate`, and with itself in other company."""
    engine = load(folder, name, "float32")
    vocab_size = engine._runner.vocab_size
    prompts = {str(length): prompt_of(length, vocab_size) for length in LENGTHS}
    together = run(engine, *(_request(key, ids, GREEDY) for key, ids in prompts.items()))
    reference = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
    reference = torch.nn.Module.to(reference, "cuda" if torch.cuda.is_available() else "cpu")
    for key, ids in prompts.items():
        given = torch.tensor([ids], device=reference.device)
        whole = reference.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=ANSWER,
                                   do_sample=False, pad_token_id=0)  # fmt: skip
        same = whole[0, len(ids) :].tolist() == tokens(together[key])
        checks.note(f"greedy answer to {key} tokens equals `generate`'s", same)
    warm = Sampling(temperature=1, top_p=0.9, seed=3)
    alone = {key: tokens(run(engine, _request(key, ids, warm))[key]) for key, ids in prompts.items()}
    company = run(engine, *(_request(key, ids, warm) for key, ids in prompts.items()))
    checks.note("drawn answers are the same in company", all(alone[k] == tokens(company[k]) for k in prompts))
    key = str(LENGTHS[-1])
    rest = run(engine, _request(key, prompts[key], warm, generated_ids=tuple(alone[key][:20])))[key]
    checks.note("a continued answer is the one it would have been", tokens(rest) == alone[key][20:])


def _request(key: str, ids: tuple[int, ...], sampling: Sampling, generated_ids: tuple[int, ...] = ()) -> EngineRequest:
    return EngineRequest(id=key, prompt_ids=ids, max_tokens=ANSWER, sampling=sampling, generated_ids=generated_ids)


@contextmanager
def full_device() -> Iterator[None]:
    """Take the device's memory away, but for a little."""
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(max(free - (64 << 20), 1), dtype=torch.uint8, device="cuda")
    try:
        yield
    finally:
        del held
        torch.cuda.empty_cache()


def check_out_of_memory(checks: Checks, folder: Path, name: str) -> None:
    """Let a long prompt meet a full device."""
    if not torch.cuda.is_available():
        checks.lines.append("- left out: out of memory (there is no GPU)")
        return
    engine = load(folder, name, "bfloat16", max_batch_tokens=8192)
    long = prompt_of(8000, engine._runner.vocab_size)
    torch.cuda.empty_cache()
    with full_device():
        ended = run(engine, _request("long", long, GREEDY))["long"][-1].finish
    after = run(engine, _request("short", long[:20], GREEDY))["short"][-1].finish
    checks.note("a full device fails a request, not the engine", after == "max_tokens", f"{ended}, then {after}")


def measure(engine: TransformersEngine, streams: int) -> str:
    """Return a row of the table: all streams begin at once."""
    vocab_size = engine._runner.vocab_size
    begun = time.perf_counter()
    for index in range(streams):
        ids = prompt_of(PROMPT + index, vocab_size)[:PROMPT]
        engine.submit(_request(str(index), ids, Sampling(temperature=1, seed=index)))
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    left, count = streams, 0
    while left:
        outputs = engine.step()
        now = time.perf_counter()
        for output in outputs:
            count += len(output.token_ids)
            if output.token_ids:
                first.setdefault(output.id, now)
                last[output.id] = now
            left -= output.finish is not None
    ttft = statistics.median(first.values()) - begun
    tpot = statistics.median((last[key] - first[key]) / (ANSWER - 1) for key in first)
    rate = count / (max(last.values()) - begun)
    return f"| {streams} | {ttft * 1000:.0f} | {tpot * 1000:.1f} | {rate:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a model folder to measure; random weights without")
    parser.add_argument("--quick", action="store_true", help="measure the small model: to see that it works")
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder, "small", SMALL, torch.float32)
        check_tokens(checks, folder, "small")
        measured_in, name = folder, "small"
        if options.model:
            measured_in, name = options.model.resolve().parent, options.model.name
        elif not options.quick:
            make(folder, "large", LARGE, torch.bfloat16)
            name = "large"
        check_out_of_memory(checks, measured_in, name)
        engine = load(measured_in, name, "bfloat16", max_batch=128, max_batch_tokens=4096)
        measure(engine, 2)
        rows = [measure(engine, streams) for streams in ((1, 8) if options.quick else (1, 32, 128))]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{device}, torch {torch.__version__}, {name}\n")
    print("\n".join(checks.lines))
    print(f"\n{PROMPT} tokens of prompt, {ANSWER} of answer:\n")
    print("| streams | TTFT p50 ms | TPOT p50 ms | tokens/s |\n| --- | --- | --- | --- |")
    print("\n".join(rows))
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
