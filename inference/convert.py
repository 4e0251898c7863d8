"""`python -m inference.convert GGUF_PATH OUT_DIR`: make bfloat16 safetensors and a fast tokenizer of a GGUF file."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import gguf
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from inference.models import draft_of


def convert(source: Path, target: Path) -> None:
    """Write the model folder `target`, which appears when it is complete."""
    _read_once()
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(
        **where, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    with draft_of(target) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)


def _read_once() -> None:
    """Halve the time: transformers parses the file three times, and makes the table of names once per module."""
    for slow in ("GGUFReader", "get_tensor_name_map"):
        setattr(gguf, slow, functools.cache(getattr(gguf, slow)))


def main(argv: list[str]) -> int:
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    os.umask(0o077)  # as in `inference.models`
    try:
        convert(Path(argv[0]).resolve(), Path(argv[1]).resolve())
    except Exception as error:  # a file that is not as it should be fails anywhere in the libraries
        print(f"Error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
