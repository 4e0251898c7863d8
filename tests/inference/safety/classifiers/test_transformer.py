from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, PreTrainedModel

from inference.safety.classifiers.base import ClassifierError
from inference.safety.classifiers.transformer import MOST_BATCH_TOKENS, MOST_ROWS, Transformer, _batches, find
from tests.inference.safety.classifiers.conftest import PLAIN, examples, make_tokenizer

SHIP = "the captain saw a big whale near the island"
COW = "the farmer saw a big cow near the barn"


def load(models: Path, name: str) -> Transformer:
    return Transformer.load(models, name, "cpu")


@pytest.fixture(scope="module")
def exclusive(models: Path) -> Transformer:
    return load(models, "exclusive")


@pytest.fixture(scope="module")
def independent(models: Path) -> Transformer:
    return load(models, "independent")


@pytest.fixture
def copy(models: Path, tmp_path: Path) -> Path:
    """Return a copy of a model, to be spoilt."""
    return Path(shutil.copytree(models / "exclusive", tmp_path / "copy"))


def change_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_it_works(exclusive: Transformer) -> None:
    (ship, cow) = exclusive.scores([SHIP, COW])

    assert exclusive.categories == ("sea", "farm")
    assert ship[0] > 0.9
    assert cow[1] > 0.9
    assert sum(ship) == pytest.approx(1)


def test_labels_can_be_independent(independent: Transformer) -> None:
    both, none = independent.scores([f"{SHIP} {COW}", "they talked about it in summer"])

    assert min(both) > 0.5
    assert max(none) < 0.5


@pytest.mark.parametrize("name", ["exclusive", "independent"])
def test_it_tells_apart_texts_that_it_has_not_seen(models: Path, name: str) -> None:
    held_out = examples(-1, 200, exclusive=name == "exclusive")

    scores = load(models, name).scores([example.text for example in held_out])

    for label in range(2):
        found = [row[label] >= 0.5 for row in scores]
        true = [bool(example.labels[label]) for example in held_out]
        num_right = sum(f and t for f, t in zip(found, true, strict=True))
        assert num_right / sum(found) > 0.95  # precision
        assert num_right / sum(true) > 0.95  # recall


def test_neighbours_change_nothing(exclusive: Transformer) -> None:
    texts = [example.text for example in examples(7, 70, exclusive=True)] + ["", "cow", SHIP * 40]

    together = exclusive.scores(texts)

    for text, scores in zip(texts, together, strict=True):
        assert exclusive.scores([text])[0] == pytest.approx(scores, abs=1e-5)


def test_one_window_decides_about_a_long_text(independent: Transformer) -> None:
    plain = " ".join(random.Random(0).choices(PLAIN, k=150)) + " "

    hidden, clean = independent.scores([plain + COW + " " + plain, plain])

    assert hidden[1] > 0.9
    assert hidden[0] < 0.5
    assert max(clean) < 0.5


@pytest.mark.parametrize("text", ["", " ", "\ud800 whale \udfff", "鯨🐋\x00\u200b", "x" * 10_000])
def test_it_takes_any_text(exclusive: Transformer, text: str) -> None:
    ((sea, farm),) = exclusive.scores([text])

    assert sea + farm == pytest.approx(1, abs=0.5)


def test_it_takes_none(exclusive: Transformer) -> None:
    assert exclusive.scores([]) == []


def test_a_model_without_padding_judges_one_at_a_time(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        pad_token_id=None, initializer_range=0.5,
    )  # fmt: skip
    config.num_labels = 3
    model: PreTrainedModel = LlamaForSequenceClassification(config)  # type: ignore[no-untyped-call]  # transformers has it untyped
    model.save_pretrained(tmp_path / "decoder")
    tokenizer.save_pretrained(tmp_path / "decoder")

    classifier = load(tmp_path, "decoder")
    together = classifier.scores([SHIP, "cow"])

    assert classifier.categories == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert together == [*classifier.scores([SHIP]), *classifier.scores(["cow"])]


def test_batches_are_bounded_and_hold_each_row_once() -> None:
    lengths = [3, 200, 7, 256, 1] * 30

    batches = list(_batches(lengths, most_rows=MOST_ROWS))

    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= MOST_ROWS
        assert len(batch) * max(lengths[index] for index in batch) <= MOST_BATCH_TOKENS


def test_it_finds_a_model_by_path_by_name_and_by_hub_id(models: Path, tmp_path: Path) -> None:
    folder = models / "exclusive"

    assert find(tmp_path, str(folder)) == find(models, "exclusive") == find(models, "owner/exclusive") == folder


def test_it_says_how_to_bring_what_is_not_here(tmp_path: Path) -> None:
    with pytest.raises(ClassifierError, match=r"no classifier owner/guard in .*manage\.py fetch_model owner/guard"):
        load(tmp_path, "owner/guard")


def test_it_refuses_pickles(copy: Path) -> None:
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()

    with pytest.raises(ClassifierError, match=r"has no model\.safetensors"):
        load(copy.parent, "copy")


def test_it_refuses_code_of_the_models_own(copy: Path) -> None:
    change_config(copy, model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    (copy / "own.py").write_text("raise SystemExit('ran')")

    with pytest.raises(ClassifierError, match="copy cannot classify"):
        load(copy.parent, "copy")


def test_it_refuses_a_model_that_only_writes(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "writer")
    tokenizer.save_pretrained(tmp_path / "writer")

    with pytest.raises(ClassifierError, match=r"does not classify sequences: it has no score\.weight"):
        load(tmp_path, "writer")


def test_it_refuses_a_regression(copy: Path) -> None:
    change_config(copy, problem_type="regression")

    with pytest.raises(ClassifierError, match="estimates numbers"):
        load(copy.parent, "copy")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_it_refuses_a_file_that_is_none(copy: Path, name: str) -> None:
    (copy / name).write_text("{")

    with pytest.raises(ClassifierError, match="copy cannot classify"):
        load(copy.parent, "copy")


def test_it_refuses_a_device_that_is_not_here(models: Path) -> None:
    with pytest.raises(ClassifierError, match=r"expected auto, cpu, cuda or cuda:N"):
        Transformer.load(models, "exclusive", "abacus")


def test_what_is_no_number_is_not_taken_for_safe(copy: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    weights["classifier.bias"].fill_(float("nan"))
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ClassifierError, match="gave no number"):
        load(copy.parent, "copy").scores([SHIP])
