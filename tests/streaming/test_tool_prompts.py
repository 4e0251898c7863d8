"""Tools in prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from inference.protocol.tools import FormatName
from streaming.prompts import PromptTemplate, TemplateError

HEAD = "{% for m in messages %}<|start|>{{ m.role }}\n"
TAIL = "<|end|>\n{% endfor %}<|start|>assistant"
PLAIN = HEAD + "{{ m.content }}" + TAIL
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('No system here.') }}{% endif %}" + PLAIN

TOOLS = "{% if tools %}<|start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|end|>\n{% endif %}"


def writing(call: str) -> str:
    """Return a template that writes each call in this way."""
    return TOOLS + HEAD + "{{ m.content }}{% for call in m.tool_calls %}" + call + "{% endfor %}" + TAIL


NAME, INPUT = "{{ call.function.name }}", "{{ call.function.arguments | tojson }}"
HERMES = writing(f'\n<tool_call>\n{{"name": "{NAME}", "arguments": {INPUT}}}\n</tool_call>')
HERMES_2 = writing(f'\n<tool_call>\n{{ "arguments": {INPUT}, "name": "{NAME}"}}\n</tool_call> ')
LLAMA = writing(f'{{"name": "{NAME}", "parameters": {INPUT}}}')
MISTRAL = writing(
    "{% if call.id | length != 9 %}{{ raise_exception('Ids have nine letters.') }}{% endif %}"
    "[TOOL_CALLS] [{{ call.function | tojson }}]"
)
MISTRAL_NAMED = writing(f"[TOOL_CALLS]{NAME}[ARGS]{INPUT}")
OTHER = writing(f"<tool_call><function={NAME}>{INPUT}</function></tool_call>")

CONTROL = ["<|start|>", "<|end|>", "[TOOL_CALLS]", "[ARGS]"]
MARKS = ["<tool_call>", "</tool_call>", "<tool_response>"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(content, special=True, normalized=False) for content in CONTROL])
    made.add_tokens([AddedToken(content, normalized=False) for content in MARKS])
    return made


def with_template(tokenizer: Tokenizer, source: str, **others: str) -> PromptTemplate:
    return PromptTemplate(json.loads(tokenizer.to_str()), {"default": source, **others}, {}, context_length=9)


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": SCHEMA}}
CALL = {"type": "function", "id": "toolu_12345", "function": {"name": "get_weather", "arguments": {"city": "Rom é"}}}
TURNS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "toolu_12345", "name": "get_weather", "content": "Sunny"},
]


def asked(prompt: PromptTemplate, tokenizer: Tokenizer, turns: list[dict[str, Any]] = TURNS, **more: Any) -> str:
    return str(tokenizer.decode(prompt.ask(turns, **more), skip_special_tokens=False))


@pytest.mark.parametrize(
    ("source", "form"),
    [
        (HERMES, "hermes"), (HERMES_2, "hermes"), (LLAMA, "llama3"), (MISTRAL, "mistral"),
        (MISTRAL_NAMED, "mistral_named"), (OTHER, "hermes"), (PLAIN, "hermes"),
    ],
)  # fmt: skip
def test_it_works(tokenizer: Tokenizer, source: str, form: FormatName) -> None:
    prompt = with_template(tokenizer, source)
    assert prompt.tool_format == form
    text = asked(prompt, tokenizer, tools=[TOOL])
    for said in ("Be brief.", "Weather?", "I look.", "Sunny", "get_weather", "Rom é", json.dumps(SCHEMA)):
        assert said in text
    assert text.endswith("<|start|>assistant")


def test_a_template_of_its_own_is_left_to_write_everything(tokenizer: Tokenizer) -> None:
    text = asked(with_template(tokenizer, LLAMA), tokenizer, tools=[TOOL])
    assert text == (
        f"<|start|>system\n{json.dumps(TOOL)}\n<|end|>\n<|start|>system\nBe brief.<|end|>\n"
        "<|start|>user\nWeather?<|end|>\n"
        '<|start|>assistant\nI look.{"name": "get_weather", "parameters": {"city": "Rom é"}}<|end|>\n'
        "<|start|>tool\nSunny<|end|>\n<|start|>assistant"
    )


def test_a_template_for_tools_is_taken_for_them(tokenizer: Tokenizer) -> None:
    prompt = with_template(tokenizer, PLAIN, tool_use=LLAMA)
    assert prompt.tool_format == "llama3"
    assert '"parameters"' in asked(prompt, tokenizer), "turns with calls in them need it, too"
    assert asked(prompt, tokenizer, TURNS[:2]) == asked(with_template(tokenizer, PLAIN), tokenizer, TURNS[:2])


@pytest.mark.parametrize("source", [PLAIN, OTHER])
def test_where_there_is_none_the_model_is_told(tokenizer: Tokenizer, source: str) -> None:
    text = asked(with_template(tokenizer, source), tokenizer, tools=[TOOL])
    system, user, assistant, results, _ = text.split("<|start|>")[1:]
    assert system.startswith("system\nBe brief.\n\n# Tools\n\n")
    assert f"<tools>\n{json.dumps(TOOL)}\n</tools>" in system
    assert user == "user\nWeather?<|end|>\n"
    assert assistant == (
        'assistant\nI look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rom é"}}\n'
        "</tool_call><|end|>\n"
    )
    assert results == "user\n<tool_response>\nSunny\n</tool_response><|end|>\n"


def test_a_template_without_a_system_has_it_in_the_first_turn(tokenizer: Tokenizer) -> None:
    text = asked(with_template(tokenizer, NO_SYSTEM), tokenizer, TURNS[1:2], tools=[TOOL])
    assert text.startswith("<|start|>user\n# Tools")
    assert text.endswith("\n\nWeather?<|end|>\n<|start|>assistant")
    with pytest.raises(TemplateError, match="No system here"):
        asked(with_template(tokenizer, NO_SYSTEM), tokenizer, tools=[TOOL])


def test_results_and_what_the_user_says_then_are_one_turn(tokenizer: Tokenizer) -> None:
    text = asked(with_template(tokenizer, PLAIN), tokenizer, [*TURNS, {"role": "user", "content": "And now?"}])
    assert "<tool_response>\nSunny\n</tool_response>\nAnd now?<|end|>" in text


@pytest.mark.parametrize("source", [PLAIN, HERMES, NO_SYSTEM])
def test_the_schema_of_an_answer_is_told(tokenizer: Tokenizer, source: str) -> None:
    text = asked(with_template(tokenizer, source), tokenizer, TURNS[1:2], output=SCHEMA)
    assert json.dumps(SCHEMA) in text.partition("Weather?")[0]


def test_without_tools_nothing_is_added(tokenizer: Tokenizer) -> None:
    for source in (PLAIN, HERMES):
        prompt = with_template(tokenizer, source)
        assert prompt.ask(TURNS[:2]) == prompt.encode(TURNS[:2])


def test_the_default_model_has_none_of_its_own(template: PromptTemplate) -> None:
    assert template.tool_format == "hermes"
    assert len(template.ask(TURNS, tools=[TOOL])) > len(template.ask(TURNS)) + 50


words = st.lists(st.sampled_from([*CONTROL, *MARKS, "<", "tool_call", ">", "x", "\n"]), max_size=6).map("".join)


@pytest.mark.parametrize("source", [PLAIN, HERMES, LLAMA, MISTRAL_NAMED])
@given(said=words)
def test_names_of_control_tokens_are_text_wherever_they_come_from(tokenizer: Tokenizer, source: str, said: str) -> None:
    prompt = with_template(tokenizer, source)

    def names_in(text: str) -> list[str]:
        function = {"name": "f", "description": text, "parameters": {"type": "object", "title": text, text: text}}
        call = {"type": "function", "id": text, "function": {"name": "f", "arguments": {text: [text]}}}
        turns: list[dict[str, Any]] = [
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": text, "name": "f", "content": text},
        ]
        tool = {"type": "function", "function": function}
        names = [tokenizer.id_to_token(n) for n in prompt.ask(turns, tools=[tool], output={"title": text})]
        # Where they are no control tokens of the template's, the marks are words, the caller's as ours.
        return [name for name in names if name in CONTROL or (name in MARKS and name in source)]

    assert names_in(said) == names_in("x")
