from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profanity_check import predict_prob
from profanity_check.profanity_check import vectorizer

from inference.safety.classifiers import toxicity
from inference.safety.classifiers.base import ClassifierError
from inference.safety.classifiers.convert_toxicity import convert, verify
from inference.safety.classifiers.toxicity import LinearModel, Toxicity
from inference.safety.windows import covering, window, window_ends
from tests.inference.safety.classifiers.texts import ALL, LONG, SHORT

INSULT = "You stupid idiot, shut up, I hate you, you moron."
WORDS = sorted(vectorizer.vocabulary_)

any_words = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=12)), max_size=60)
any_text = st.builds(lambda words, between: between.join(words), any_words, st.sampled_from([" ", ", ", "", "\n", "-"]))


@pytest.fixture(scope="session")
def classifier(folder: Path) -> Toxicity:
    return Toxicity.load(folder)


def test_it_works(classifier: Toxicity) -> None:
    (insult,), (thanks,) = classifier.scores([INSULT, "Thank you, that was very kind."])

    assert insult >= 0.9
    assert thanks < 0.1


@given(texts=st.lists(any_text, min_size=1, max_size=8))
def test_it_computes_what_the_package_computes(classifier: Toxicity, texts: list[str]) -> None:
    assert [score for (score,) in classifier.scores(texts)] == pytest.approx(predict_prob(texts), rel=0, abs=1e-9)


def test_it_computes_what_the_package_computes_of_our_texts(classifier: Toxicity) -> None:
    texts = [row.text for row in ALL]
    texts += [" ".join(texts), "", "\ud800idiot\udfff", "İDİOT ΣΑΣ", "idiot " * 20_000, " ".join(WORDS)]

    assert [score for (score,) in classifier.scores(texts)] == pytest.approx(predict_prob(texts), rel=0, abs=1e-9)


def test_quality(classifier: Toxicity) -> None:
    """The model knows single words best: what is meant badly in plain words escapes it."""
    scores = [score for (score,) in classifier.scores([row.text for row in SHORT])]

    for threshold, least_precision, least_recall in ((0.5, 0.9, 0.9), (0.7, 0.9, 0.85), (0.9, 0.95, 0.75)):
        found = [row for row, score in zip(SHORT, scores, strict=True) if score >= threshold]
        num_right = sum(row.toxic for row in found)
        assert num_right / len(found) >= least_precision
        assert num_right / sum(row.toxic for row in SHORT) >= least_recall


def windows_of_growing(text: str) -> Iterator[str]:
    return (text[window(text, end) : end] for end in window_ends(text, 0, over=True))


def windows_of_whole(text: str) -> Iterator[str]:
    return (text[begin:end] for begin, end in covering(text))


@pytest.mark.parametrize("windows", [windows_of_growing, windows_of_whole])
def test_windows_find_an_insult_in_a_long_harmless_text(
    classifier: Toxicity, windows: Callable[[str], Iterator[str]]
) -> None:
    def highest(text: str) -> float:
        return max(score for (score,) in classifier.scores(list(windows(text))))

    obvious = [row.text for row in SHORT if row.toxic and classifier.scores([row.text])[0][0] >= 0.9]
    found = 0
    for insult, around in zip(obvious, cycle(LONG), strict=False):
        before, dot, after = around.text.partition(". ")
        found += highest(f"{before}{dot}{insult} {after}") >= 0.9

    assert found / len(obvious) >= 0.9
    assert sum(highest(row.text) >= 0.9 for row in LONG) <= 1
    assert sum(highest(row.text) >= 0.9 for row in SHORT if not row.toxic) <= 3


def test_later_starts_need_no_pickles(classifier: Toxicity, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxicity, "_convert", lambda path: pytest.fail("it is there already"))

    assert Toxicity.load(folder).scores([INSULT]) == classifier.scores([INSULT])


def test_it_loads_none_of_the_libraries(folder: Path, classifier: Toxicity) -> None:
    code = (
        "import sys; from pathlib import Path; from inference.safety.classifiers.toxicity import Toxicity;"
        f"Toxicity.load(Path({str(folder)!r})).scores(['idiot']);"
        "print({'sklearn', 'numpy', 'joblib', 'torch'} & set(sys.modules))"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_a_spoilt_file_is_made_again(
    classifier: Toxicity,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (good,) = folder.iterdir()
    monkeypatch.setattr(toxicity, "_convert", lambda path: shutil.copy(good, path))
    (tmp_path / good.name).write_text(good.read_text()[:1000])

    assert Toxicity.load(tmp_path).scores([INSULT]) == classifier.scores([INSULT])
    assert "is made again" in caplog.text


def test_a_folder_that_takes_no_files_does_not_stop_it(
    classifier: Toxicity,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (good,) = folder.iterdir()
    monkeypatch.setattr(toxicity, "_convert", lambda path: shutil.copy(good, path))
    (tmp_path / "models").touch()

    assert Toxicity.load(tmp_path / "models" / "x").scores([INSULT]) == classifier.scores([INSULT])
    assert "takes no files" in caplog.text


def test_it_says_why_it_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profanity_check.py").write_text("raise ValueError('no such model')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ClassifierError, match=r"cannot be read: ValueError: no such model .*constraints\.txt"):
        Toxicity.load(tmp_path)


def test_a_model_of_another_kind_is_refused() -> None:
    linear = convert()
    verify(linear)

    with pytest.raises(ValueError, match="in the package"):
        verify(LinearModel(linear.rarities, linear.slopes, tuple(offset + 0.1 for offset in linear.offsets)))
