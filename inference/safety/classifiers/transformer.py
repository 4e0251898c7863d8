"""The check `transformer`: any Hugging Face model that classifies sequences, in batches on the worker's device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from inference.engines.transformers.device import resolve_device, resolve_dtype
from inference.models import missing_files
from inference.protocol.settings import SettingError
from inference.safety.classifiers.base import ClassifierError

MOST_TOKENS = 256  # of one window; longer texts are judged in several
OVERLAP = 64  # tokens that a window shares with the next
MOST_ROWS = 32  # of a batch, padding included, since the engine waits for it
MOST_BATCH_TOKENS = 4096


class Transformer:
    """Scores every label of a model: by softmax where labels exclude each other, each by itself where they do not.

    A text longer than a window has of each label the highest score of its windows.
    """

    window = 400  # characters: it judges words by those around them

    def __init__(self, name: str, model: PreTrainedModel, tokenizer: Any) -> None:
        config: Any = model.config  # each model has its own
        self.categories: tuple[str, ...] = tuple(config.id2label[label] for label in range(config.num_labels))
        self._name, self._model, self._tokenizer = name, model, tokenizer
        self._exclusive = config.num_labels > 1 and config.problem_type != "multi_label_classification"
        self._most_tokens = min(
            MOST_TOKENS, tokenizer.model_max_length, getattr(config, "max_position_embeddings", MOST_TOKENS)
        )
        self._pad_id: int | None = config.get_text_config().pad_token_id  # some models look for it themselves

    @classmethod
    def load(cls, models: Path, name: str, device: str) -> Transformer:
        """Load safetensors: no pickles, no code of the model's own, no network; raise `ClassifierError` if in vain."""
        path = find(models, name)
        try:
            where = resolve_device(device)
        except SettingError as error:
            raise ClassifierError(str(error)) from None
        try:
            classifier = cls(name, *_read(path))
            classifier.try_out()
        except ClassifierError:
            raise
        except Exception as error:  # a folder that is not as it should be fails anywhere in the libraries
            raise ClassifierError(f"The model at {path} cannot classify: {' '.join(str(error).split())}") from error
        dtype = resolve_dtype("auto" if where.type == "cuda" else "float32", where)
        torch.nn.Module.to(classifier._model, where, dtype)
        return classifier

    def scores(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Judge texts; raise `ClassifierError` where the model gives no number, so that nothing passes unjudged."""
        rows, owners = self._windows(texts)
        best = [(0.0,) * len(self.categories)] * len(texts)
        for batch in _batches([len(row) for row in rows], most_rows=1 if self._pad_id is None else MOST_ROWS):
            logits = self._logits([rows[index] for index in batch])
            scores = logits.softmax(-1) if self._exclusive else logits.sigmoid()
            if not scores.isfinite().all():
                raise ClassifierError(
                    f"The model {self._name} gave no number: it cannot be computed in this precision."
                )
            for index, row in zip(batch, scores.tolist(), strict=True):
                best[owners[index]] = tuple(map(max, best[owners[index]], row))
        return best

    def try_out(self) -> None:
        """Judge the longest window there can be; give up padding if it changes scores."""
        short, long, *_ = self._windows(["a b", "a b c " * self._most_tokens])[0]
        alone = torch.cat([self._logits([short]), self._logits([long])])
        if self._pad_id is not None and not torch.allclose(self._logits([short, long]), alone, atol=1e-3, rtol=1e-3):
            self._pad_id = None

    def _windows(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Return token ids of the windows of all texts, and which text each is of."""
        if not texts:
            return [], []
        encoded = self._tokenizer(
            [_well_formed(text) for text in texts],
            truncation=True,
            max_length=self._most_tokens,
            stride=min(OVERLAP, self._most_tokens // 4),
            return_overflowing_tokens=True,
            return_attention_mask=False,
        )
        windows = zip(encoded["input_ids"], encoded["overflow_to_sample_mapping"], strict=True)
        kept = [(ids, owner) for ids, owner in windows if ids]  # nothing to judge in those without tokens
        return [ids for ids, _ in kept], [owner for _, owner in kept]

    @torch.inference_mode()
    def _logits(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return what the model says of rows of ids [rows, labels], float32 on the CPU."""
        longest = max(map(len, rows))
        ids = torch.full((len(rows), longest), self._pad_id or 0)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row)
            mask[index, : len(row)] = 1
        device = self._model.device
        logits: Tensor = self._model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
        return logits.float().cpu()


def find(models: Path, name: str) -> Path:
    """Return the folder of a classifier: a path, a folder in `models`, or that of a hub id, `owner/name`."""
    choices = [models / name, models / name.rpartition("/")[2]]  # the first is `name` itself where that is absolute
    path = next((choice for choice in choices if choice.is_dir()), None)
    if path is None:
        raise ClassifierError(f"There is no classifier {name} in {models}: `manage.py fetch_model {name}` brings it.")
    try:
        missing = missing_files(path)
    except (OSError, ValueError, KeyError) as error:
        raise ClassifierError(f"The index of the model at {path} cannot be read: {error}") from None
    if missing:
        raise ClassifierError(
            f"The model at {path} has no {', '.join(missing)}: `manage.py fetch_model` brings whole ones."
        )
    return path


def _read(path: Path) -> tuple[PreTrainedModel, Any]:
    """Return model and tokenizer of a folder."""
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers has it untyped
    safe = {"trust_remote_code": False, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(path, **safe)
    model, report = AutoModelForSequenceClassification.from_pretrained(
        path, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **safe
    )
    if report["missing_keys"]:
        raise ClassifierError(
            f"The model at {path} does not classify sequences: it has no {', '.join(sorted(report['missing_keys']))}."
        )
    if model.config.problem_type == "regression":
        raise ClassifierError(f"The model at {path} estimates numbers (problem_type regression), it does not classify.")
    model.requires_grad_(False)
    return model.eval(), tokenizer


def _batches(lengths: Sequence[int], *, most_rows: int) -> Iterator[list[int]]:
    """Yield indices of rows that are computed together, those of like lengths, so that little is padding."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == most_rows or (len(batch) + 1) * lengths[index] > MOST_BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _well_formed(text: str) -> str:
    """Replace lone surrogates, which no tokenizer takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
