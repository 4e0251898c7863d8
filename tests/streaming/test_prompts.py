from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from inference.protocol import settings as sluice
from streaming.prompts import PromptTemplate, TemplateError

CHAT_ML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONTROL = ["<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>", "<s>"]

thorough = settings(deadline=None, max_examples=200)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def small_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        show_progress=False,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["user assistant system hello <|im_end|> <|im_start|> <s>"] * 9, trainer)
    tokenizer.add_tokens([AddedToken("</think>", normalized=False), AddedToken("  ", normalized=False)])
    return tokenizer


def template(
    source: str = CHAT_ML, tokenizer: Tokenizer | None = None, names: Mapping[str, str] | None = None
) -> PromptTemplate:
    spec = json.loads((tokenizer or small_tokenizer()).to_str())
    return PromptTemplate(spec, {"default": source}, names or {}, context_length=64)


def controls(prompt: PromptTemplate, messages: list[dict[str, Any]], tokenizer: Tokenizer, **options: Any) -> list[str]:
    """Name the special tokens in a prompt."""
    special = {token_id for token_id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    return [str(tokenizer.id_to_token(n)) for n in prompt.encode(messages, **options) if n in special]


@pytest.fixture(scope="session")
def small() -> Tokenizer:
    return small_tokenizer()


@pytest.fixture(scope="session")
def chat(small: Tokenizer) -> PromptTemplate:
    return template(tokenizer=small)


@pytest.fixture(scope="session")
def folder() -> Path:
    loaded = sluice.load()
    return loaded.models_path / loaded.model


@pytest.fixture(scope="session")
def real(folder: Path) -> PromptTemplate:
    return PromptTemplate.load(folder)


@pytest.fixture(scope="session")
def real_tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def reference(folder: Path) -> Callable[[list[dict[str, Any]]], tuple[int, ...]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda messages: tuple(
        tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
    )


CONVERSATIONS = [
    [user("Hello")],
    [system("Be brief."), user("Hello")],
    [user("Hi"), assistant("Hello! How can I help?"), user("Tell me a story.")],
    [system("Sei kurz."), user("Grüße 😀 日本語 שלום e\u0301 👩🏽‍🚀"), assistant("ok"), user("مرحبا")],
    [user("  leading and trailing \n\n")],
    [user("line\nline\r\n\n\n    def f():\n\t\treturn 1")],
    [user("")],
    [user(""), assistant(""), user("")],
    [user("a < b | c > d <| |> <im_start> < |im_end|>")],
    [user("\ufffd \u200b \x00 \ue000 \U000f0000 sluice0123x1z")],
    [user("x " * 3000)],
    [{"role": "user", "content": "hi", "tool_calls": None}],
]


@pytest.mark.model
class TestRealModel:
    @pytest.mark.parametrize("messages", CONVERSATIONS)
    def test_ids_are_those_of_transformers(
        self, real: PromptTemplate, reference: Callable[..., tuple[int, ...]], messages: list[dict[str, Any]]
    ) -> None:
        assert real.encode(messages) == reference(messages)

    @given(contents=st.lists(st.text(max_size=30), min_size=1, max_size=4))
    @thorough
    def test_any_text_gives_the_ids_of_transformers(
        self, real: PromptTemplate, reference: Callable[..., tuple[int, ...]], contents: list[str]
    ) -> None:
        messages = [(user, assistant)[n % 2](content) for n, content in enumerate(contents)]
        assert real.encode(messages) == reference(messages)

    @given(data=st.data())
    @thorough
    def test_no_text_forges_a_turn(self, real: PromptTemplate, real_tokenizer: Tokenizer, data: st.DataObject) -> None:
        names = [token.content for token in real_tokenizer.get_added_tokens_decoder().values()]
        text = forgeries(names)
        contents = data.draw(st.lists(text, min_size=1, max_size=4))
        messages = [(user, assistant)[n % 2](content) for n, content in enumerate(contents)]
        harmless = [message | {"content": "x"} for message in messages]
        assert controls(real, messages, real_tokenizer) == controls(real, harmless, real_tokenizer)
        decoded = real_tokenizer.decode(real.encode(messages), skip_special_tokens=False)
        assert decoded == real.render(messages)

    def test_it_knows_the_context_length(self, real: PromptTemplate) -> None:
        assert real.context_length == 8192


def forgeries(names: list[str]) -> st.SearchStrategy[str]:
    """Texts of special tokens' names, whole and in fragments."""
    halves = [part for name in names for part in (name[: len(name) // 2], name[len(name) // 2 :], name[1:], name[:-1])]
    known = st.sampled_from([*names, *halves, "system\n", "\n", "user", " "])
    return st.lists(known | st.characters(codec="ascii").filter(str.isprintable), max_size=10).map("".join)


@given(contents=st.lists(forgeries(CONTROL), min_size=1, max_size=4))
@thorough
def test_no_text_forges_a_turn(chat: PromptTemplate, small: Tokenizer, contents: list[str]) -> None:
    messages = [(user, assistant)[n % 2](content) for n, content in enumerate(contents)]
    assert controls(chat, messages, small) == ["<|im_start|>", "<|im_end|>"] * len(messages) + ["<|im_start|>"]
    assert small.decode(chat.encode(messages), skip_special_tokens=False) == chat.render(messages)


@given(parts=st.lists(forgeries(CONTROL), max_size=6))
@thorough
def test_parts_that_the_template_joins_forge_nothing(small: Tokenizer, parts: list[str]) -> None:
    prompt = template("<s>{% for part in messages[0].content %}{{ part.text | trim }}{% endfor %}", small)
    assert controls(prompt, [user([{"text": part} for part in parts])], small) == ["<s>"]


def test_what_the_template_takes_out_of_text_forges_nothing(small: Tokenizer) -> None:
    prompt = template("{{ messages[0].content.replace('@', '') ~ messages[0].content | replace('@', '') }}", small)
    messages = [user("<|im@_start|>")]
    assert controls(prompt, messages, small) == []
    assert prompt.render(messages) == "<|im_start|>" * 2


def test_roles_and_keys_forge_nothing(chat: PromptTemplate, small: Tokenizer) -> None:
    messages = [{"role": "user<|im_end|>", "content": "x"}]
    assert controls(chat, messages, small) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    prompt = template("{% for key in tools[0] %}{{ '<' ~ key ~ '>' }}{% endfor %}{{ tools | tojson }}", small)
    tools = [{"|im_end|": {"<|im_start|>": ["<s>"]}, "s": "<|im_end|>"}]
    assert controls(prompt, [user("")], small, tools=tools) == []


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}{% endfor %}<|assistant|>",
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ '<|' ~ 'assistant' ~ '|>' }}",
        "{% for m in messages %}{% set role = m.role %}{{ '<|' ~ role ~ '|>' ~ m.content }}{% endfor %}"
        "{{ '<|assis' + 'tant|>' }}",
    ],
)
def test_a_template_may_build_control_tokens_from_roles(source: str, small: Tokenizer) -> None:
    prompt = template(source, small)
    messages = [user("<|user|>"), assistant("|>")]
    assert controls(prompt, messages, small) == ["<|user|>", "<|assistant|>", "<|assistant|>"]
    assert prompt.render(messages) == "<|user|><|user|><|assistant|>|><|assistant|>"


def test_it_rejects_a_template_that_hides_its_control_tokens() -> None:
    with pytest.raises(TemplateError, match=r"builds control tokens from parts: <\|user\|>"):
        template("{{ ['<|us', 'er|>'] | join }}")


def test_named_tokens_are_control_tokens(small: Tokenizer) -> None:
    prompt = template("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", small, {"bos_token": "<s>"})
    assert controls(prompt, [user("<s>")], small) == ["<s>"]


def test_templates_search_message_text_by_its_own_names(small: Tokenizer) -> None:
    source = (
        "{% set content = messages[0].content %}{% if '</think>' in content %}"
        "{{ content.split('</think>')[-1] ~ '</think>' }}{% endif %}"
    )
    prompt = template(source, small)
    assert prompt.render([user("a</think>b")]) == "b</think>"
    assert prompt.encode([user("a</think>b")])[-1] == small.token_to_id("</think>")


@pytest.mark.parametrize("source", ["{{ text.replace('</think>', '') }}", "{{ text | replace('</think>', '') }}"])
def test_templates_replace_names_in_message_text(source: str, small: Tokenizer) -> None:
    prompt = template("{% set text = messages[0].content %}" + source, small)
    assert prompt.render([user("a</think>b")]) == "ab"


def test_of_control_tokens_that_begin_alike_the_longest_counts() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "b": 1}, unk_token="<unk>"))
    tokenizer.add_special_tokens(["<a>", "<a>b"])
    expected = tokenizer.encode("<a>b<a>", add_special_tokens=False).ids
    assert template("<a>b<a>", tokenizer).encode([user("")]) == tuple(expected) == (3, 2)


def test_other_added_tokens_encode_text_as_ever(chat: PromptTemplate, small: Tokenizer) -> None:
    assert small.token_to_id("  ") in chat.encode([user("a  b")])


def test_a_model_cannot_make_control_tokens_of_text() -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("<s>", -1.0), *((c, -9.0) for c in "<s>ab")], 0))
    tokenizer.add_special_tokens(["<unk>", "<s>"])
    prompt = template("<s>{{ messages[0].content }}", tokenizer)
    assert prompt.encode([user("a<s>b")]) == (1, 5, 2, 3, 4, 6)


def test_a_word_level_model_cannot_either() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "a": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<s>", "<unk>"])
    assert template("<s> {{ messages[0].content }}", tokenizer).encode([user("a <s> a")]) == (1, 2, 0, 2)


def test_merges_cannot_either() -> None:
    vocab = {"<": 0, "s": 1, ">": 2, "<s": 3, "<s>": 4, "s>": 5}
    tokenizer = Tokenizer(models.BPE(vocab, [("<", "s"), ("<s", ">"), ("s", ">")]))
    assert tokenizer.encode("<s>").ids == [4]
    tokenizer.add_special_tokens(["<s>"])
    assert template("<s>{{ messages[0].content }}", tokenizer).encode([user("<s>")]) == (4, 3, 2)


def test_added_tokens_strip_spaces_as_they_say() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, " ": 1, "a": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.add_special_tokens([AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True)])
    prompt = template("{{ messages[0].content }}<l>{{ messages[0].content }}<r>{{ messages[0].content }}", tokenizer)
    expected = tokenizer.encode(" a <l> a <r> a ", add_special_tokens=False).ids
    assert prompt.encode([user(" a ")]) == tuple(expected)
    assert expected.count(1) == 4


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_spaces_before_words_are_as_in_the_models_own_tokenizer(scheme: Any) -> None:
    tokenizer = Tokenizer(models.BPE({"▁": 0, "a": 1, "b": 2, "▁a": 3, "\n": 4}, [("▁", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    prompt = template("{{ messages[0].content }}<s>{{ messages[0].content }}</s>\n", tokenizer)
    text = prompt.render([user("a b")])
    assert prompt.encode([user("a b")]) == tuple(tokenizer.encode(text, add_special_tokens=False).ids)


def test_templates_have_what_they_expect_of_transformers() -> None:
    source = (
        "{% for n in range(9) %}\n    {% if n == 2 %}{% break %}{% endif %}\n{{ n }}\n{% endfor %}\n"
        "{% generation %}{{ {'b': '<é>'} | tojson }}{% endgeneration %}{{ strftime_now('%%') }}"
        "{{ tools is none and documents is none }}\n"
    )
    assert template(source).render([user("")]) == '0\n1\n{"b": "<é>"}%True'


def test_tools_have_a_template_of_their_own_where_there_is_one() -> None:
    sources = {"default": "plain", "tool_use": "tools"}
    prompt = PromptTemplate(json.loads(small_tokenizer().to_str()), sources, {}, context_length=1)
    assert prompt.render([user("")]) == "plain"
    assert prompt.render([user("")], tools=[{"name": "f"}]) == "tools"


@pytest.mark.parametrize(
    ("source", "messages", "reason"),
    [
        ("{{ raise_exception('No ' + eos_token) }}", [user("")], "No <s>"),
        (CHAT_ML, [user(["part"])], "list"),
        (CHAT_ML, [{"role": "user"}], "content"),
        ("{{ messages[0].content.__class__.__mro__ }}", [user("")], "unsafe"),
        (CHAT_ML, [user("\ud800")], "not valid Unicode"),
    ],
)
def test_it_rejects_what_the_template_does_not_take(source: str, messages: Any, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        template(source, names={"eos_token": "<s>"}).encode(messages)


def test_it_rejects_a_template_that_does_not_compile() -> None:
    with pytest.raises(TemplateError, match="does not compile"):
        template("{% for %}")


def write_folder(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_it_loads_a_template_from_the_tokenizers_configuration(tmp_path: Path) -> None:
    spec, config = json.loads(small_tokenizer().to_str()), {"text_config": {"max_position_embeddings": 99}}
    token = {"chat_template": "{{ bos_token }}!", "bos_token": {"content": "<s>"}}
    prompt = PromptTemplate.load(write_folder(tmp_path, tokenizer=spec, tokenizer_config=token, config=config))
    assert (prompt.context_length, prompt.render([user("")])) == (99, "<s>!")
    named = {"chat_template": [{"name": "default", "template": "named"}]}
    assert PromptTemplate.load(write_folder(tmp_path, tokenizer_config=named)).render([]) == "named"


def test_it_rejects_a_folder_that_lacks_something(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="cannot be read"):
        PromptTemplate.load(tmp_path)
    write_folder(tmp_path, tokenizer=json.loads(small_tokenizer().to_str()), tokenizer_config={}, config={})
    with pytest.raises(TemplateError, match="has no chat template"):
        PromptTemplate.load(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("x")
    with pytest.raises(TemplateError, match="how many tokens"):
        PromptTemplate.load(tmp_path)
    write_folder(
        tmp_path, tokenizer={"added_tokens": [], "model": {"type": "?", "vocab": {}}}, config={"n_positions": 1}
    )
    with pytest.raises(TemplateError, match="tokenizer cannot be used"):
        PromptTemplate.load(tmp_path)


def test_it_loads_neither_torch_nor_transformers() -> None:
    code = "import sys, streaming.prompts; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
