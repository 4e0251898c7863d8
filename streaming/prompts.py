"""From a conversation to the token ids of its prompt, without transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from inference.protocol.tools import FormatName
from streaming import tool_prompts
from streaming.control_tokens import Seal, TemplateSealer, control_tokens, seal_tokenizer
from streaming.grammars import MarkTokens

_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_CONTEXT_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")
Turn = dict[str, Any]
_PROBES: tuple[tuple[str, ...], ...] = (("user",), ("system", "user"), ("user", "assistant", "user"))


class TemplateError(ValueError):
    """Raised when a conversation does not fit the model's chat template, or a model folder has none that works."""


class PromptTemplate:
    """A model's chat template and tokenizer. Names of control tokens in messages and tools are text, never control."""

    def __init__(
        self, tokenizer: Mapping[str, Any], sources: Mapping[str, str], names: Mapping[str, str], *, context_length: int
    ) -> None:
        """Build it from a tokenizer.json, templates by name, and named tokens such as `bos_token`."""
        self.context_length = context_length
        self._seal = Seal(control_tokens(tokenizer["added_tokens"], "".join(sources.values())))
        self._tokenizer = _build_tokenizer(tokenizer, self._seal)
        self._names = {name: self._seal.close(content) for name, content in names.items()}
        environment = _environment(self._seal)
        self._templates = {name: _compile(environment, source, self._seal) for name, source in sources.items()}
        self._check_control_tokens()
        self.marks = MarkTokens.of(tokenizer["added_tokens"])
        self._has_system = self._takes_system()
        own_format = self._find_tool_format()
        self._has_tools = own_format is not None
        self.tool_format: FormatName = own_format or tool_prompts.FALLBACK

    @classmethod
    def load(cls, folder: Path) -> PromptTemplate:
        """Read a model folder."""
        try:
            tokenizer, config = _read_json(folder / "tokenizer.json"), _read_json(folder / "config.json")
            settings = _read_json(folder / "tokenizer_config.json")
        except (OSError, ValueError) as error:
            raise TemplateError(f"The model folder {folder} cannot be read: {error}") from error
        sources = _template_sources(folder, settings)
        return cls(tokenizer, sources, _named_tokens(settings), context_length=_context_length(config))

    def ask(
        self,
        turns: Sequence[Turn],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        output: Mapping[str, Any] | None = None,
    ) -> tuple[int, ...]:
        """Return the token ids of a prompt: what the template has no place for is told to the model in words."""
        instructions = []
        if self._has_tools and self.tool_format.startswith("mistral"):
            turns = tool_prompts.with_short_ids(turns)
        elif not self._has_tools:
            turns = tool_prompts.in_plain_turns(turns)
            if tools:
                instructions.append(tool_prompts.describe_tools(tools))
        if output is not None:
            instructions.append(tool_prompts.describe_output(output))
        if instructions:
            turns = tool_prompts.instructed(turns, instructions, has_system=self._has_system)
        return self.encode(turns, tools=tools if tools and self._has_tools else None)

    def encode(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None
    ) -> tuple[int, ...]:
        """Return the prompt's token ids, up to where the assistant's turn begins."""
        text = self._render(messages, tools)
        try:
            # Unlike `encode` this frees the GIL, so that a long prompt in a thread stops no stream; and it is faster.
            (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        except TypeError as error:  # how `tokenizers` refuses lone surrogates
            raise TemplateError("The conversation holds text that is not valid Unicode.") from error
        return tuple(encoding.ids)

    def render(self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None = None) -> str:
        """Return the prompt as text, for people: it no longer tells control tokens from their names."""
        return self._seal.open(self._render(messages, tools))

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        wants_tools = tools or any(message["role"] == "tool" or message.get("tool_calls") for message in messages)
        name = "tool_use" if wants_tools and "tool_use" in self._templates else "default"
        # As in transformers: templates know absent keys, but many write a null out.
        said = [{key: value for key, value in message.items() if value is not None} for message in messages]
        variables = {**self._names, "messages": said, "tools": tools, "documents": None, "add_generation_prompt": True}
        try:
            return self._templates[name].render(variables)
        except Exception as error:  # a template is a program: any input it did not foresee can raise anything
            reason = self._seal.open(str(error))
            raise TemplateError(f"The model's chat template refuses this conversation: {reason}") from error

    def _check_control_tokens(self) -> None:
        """Refuse a template that makes control tokens in a way we do not see: its prompts would be wrong, silently."""
        for roles in _PROBES:
            try:
                text = self._render([{"role": role, "content": "Hello"} for role in roles], None)
            except TemplateError:
                continue  # not every template takes every order of roles
            if unsealed := self._seal.names_in(text):
                raise TemplateError(f"The chat template builds control tokens from parts: {', '.join(set(unsealed))}")

    def _takes_system(self) -> bool:
        """Whether the template writes what the system says."""
        try:
            return "probe system" in self._render(
                [{"role": "system", "content": "probe system"}, {"role": "user", "content": "Hello"}], None
            )
        except TemplateError:
            return False

    def _find_tool_format(self) -> FormatName | None:
        """Let the template write a call and its result, and look how it does; None where it cannot, or not rightly."""
        try:
            text = self._render(tool_prompts.PROBE, tool_prompts.PROBE_TOOLS)
        except TemplateError:
            return None
        return None if self._seal.names_in(text) else tool_prompts.format_of(self._seal.open(text))


class Generation(Extension):
    """The `{% generation %}` tag, which marks text to train on and means nothing here."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment(seal: Seal) -> ImmutableSandboxedEnvironment:
    """Set Jinja up as chat templates expect it."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.filters["control_token"] = seal.role
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _compile(environment: jinja2.Environment, source: str, seal: Seal) -> jinja2.Template:
    try:
        return environment.from_string(TemplateSealer(seal).visit(environment.parse(source)))
    except jinja2.TemplateError as error:
        raise TemplateError(f"The model's chat template does not compile: {error}") from error


def _build_tokenizer(spec: Mapping[str, Any], seal: Seal) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(json.dumps(seal_tokenizer(spec, seal)))
    except Exception as error:  # the class that `tokenizers` raises
        raise TemplateError(f"The model's tokenizer cannot be used: {error}") from error
    for token in spec["added_tokens"]:
        if tokenizer.token_to_id(seal.token(token["content"])) != token["id"]:
            raise TemplateError(f"The model's tokenizer gives {token['content']} another id than it says.")
    return tokenizer


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().astimezone().strftime(format)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Dump JSON as it is; Jinja's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _read_json(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _template_sources(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Find the chat templates by name, `default` among them."""
    file, inline = folder / "chat_template.jinja", settings.get("chat_template")
    if file.exists():
        return {"default": file.read_text(encoding="utf-8")}
    if isinstance(inline, str):
        return {"default": inline}
    sources = {entry["name"]: entry["template"] for entry in inline or ()}
    if "default" not in sources:
        raise TemplateError(f"The model folder {folder} has no chat template.")
    return sources


def _named_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """Read `bos_token` and its like, which are strings or objects with a content."""
    tokens = {name: settings.get(name) for name in _TOKEN_NAMES}
    contents = {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items()}
    return {name: content for name, content in contents.items() if content is not None}


def _context_length(config: Mapping[str, Any]) -> int:
    """Find how many tokens the model can see."""
    for part in (config, config.get("text_config") or {}):
        for name in _CONTEXT_LENGTHS:
            if isinstance(part.get(name), int):
                return int(part[name])
    raise TemplateError("The model's config.json does not say how many tokens the model can see.")
