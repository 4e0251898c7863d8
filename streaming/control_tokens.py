"""Control tokens that only a chat template can write.

In the template and in the tokenizer each control token is replaced by a secret stand-in of the same id. So its real
name, wherever it comes from (a message, a tool's key, two strings the template joins), is text like any other.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, TypeGuard

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

ROLES = ("system", "developer", "user", "assistant", "tool")

# Arguments of these are looked for in message text, so there a control token's name keeps meaning its text.
_SEARCHES = {
    *("count", "endswith", "find", "index", "lstrip", "partition", "removeprefix", "removesuffix"),
    *("rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "startswith", "strip"),
}
_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_MARKER = re.compile(r"<\|.*\|>", re.DOTALL)


def control_tokens(added_tokens: Iterable[Mapping[str, Any]], template: str) -> list[str]:
    """Name the added tokens that steer the model; the rest (runs of spaces, frequent words) is how text is encoded."""
    return [
        content
        for token in added_tokens
        if (content := token["content"]).strip()
        and not _BYTE_TOKEN.fullmatch(content)
        and (token["special"] or content in template or _MARKER.fullmatch(content))
    ]


class Seal:
    """The stand-ins of a model's control tokens, which nobody outside can guess."""

    def __init__(self, contents: Iterable[str]) -> None:
        nonce = secrets.token_hex(16)
        # Letters and digits only: no normalizer, JSON dump or filter of a template changes them.
        self._stand_ins = {content: f"sluice{nonce}x{n}z" for n, content in enumerate(contents)}
        self._contents = {stand_in: content for content, stand_in in self._stand_ins.items()}
        longest_first = sorted(self._stand_ins, key=len, reverse=True)
        self._names = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._sealed = re.compile(rf"sluice{nonce}x\d+z")
        self._frames = {frame for content in self._stand_ins for frame in _role_frames(content)}

    def __contains__(self, content: str) -> bool:
        return content in self._stand_ins

    def token(self, content: str) -> str:
        """Return the stand-in of a control token, and any other token as it is."""
        return self._stand_ins.get(content, content)

    def close(self, text: str) -> str:
        """Replace control tokens by their stand-ins."""
        return self._names.sub(lambda match: self._stand_ins[match[0]], text)

    def open(self, text: str) -> str:
        """Replace stand-ins by what they stand for."""
        return self._sealed.sub(lambda match: self._contents.get(match[0], match[0]), text)

    def names_in(self, text: str) -> list[str]:
        """List the control tokens that a text holds by name."""
        return self._names.findall(text)

    def role(self, role: object, before: str, after: str) -> str:
        """Join the name of a role and what a template writes around it, to a control token where they make one."""
        text = f"{before}{role}{after}"
        return self.token(text) if role in ROLES else text

    def role_frame(self, before: str, after: str) -> tuple[str, str] | None:
        """Find what a template writes around a role to make a control token."""
        fitting = [frame for frame in self._frames if before.endswith(frame[0]) and after.startswith(frame[1])]
        return max(fitting, key=lambda frame: len("".join(frame)), default=None)


def _role_frames(content: str) -> Iterable[tuple[str, str]]:
    for role in ROLES:
        before, found, after = content.partition(role)
        if found and before and after:
            yield before, after


def seal_tokenizer(spec: Mapping[str, Any], seal: Seal) -> dict[str, Any]:
    """Rename the control tokens of a tokenizer.json, so that it keeps their ids and finds their names no more."""
    added = [token | {"content": seal.token(token["content"])} for token in spec["added_tokens"]]
    cleared = dict.fromkeys(("truncation", "padding", "post_processor"))
    return {**spec, **cleared, "added_tokens": added, "model": _seal_model(spec["model"], seal)}


def _seal_model(model: Mapping[str, Any], seal: Seal) -> dict[str, Any]:
    """Rename control tokens in the vocabulary too: some models find them in plain text, added tokens or not."""
    sealed, vocab = dict(model), model["vocab"]
    if isinstance(vocab, dict):
        sealed["vocab"] = {seal.token(token): token_id for token, token_id in vocab.items()}
    else:
        sealed["vocab"] = [[seal.token(token), score] for token, score in vocab]
    if isinstance(model.get("unk_token"), str):
        sealed["unk_token"] = seal.token(model["unk_token"])
    if "merges" in model:
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        sealed["merges"] = [[a, b] for a, b in pairs if a not in seal and b not in seal and a + b not in seal]
    return sealed


class TemplateSealer(NodeTransformer):
    """Rewrites a parsed chat template so that it writes stand-ins for control tokens."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.TemplateData(self._seal.close(node.data), lineno=node.lineno)

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        return nodes.Const(self._seal.close(node.value), lineno=node.lineno) if _is_text(node) else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Node:
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        method = node.node.attr if isinstance(node.node, nodes.Getattr) else ""
        if method in _SEARCHES:
            node.node = self.visit(node.node)
            return node
        return self._visit_replacing(node, node.args if method == "replace" else [])

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:
        return self._visit_replacing(node, node.args if node.name == "replace" else [])

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        node.nodes = self._join_roles(node.nodes)
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        node.nodes = self._join_roles(node.nodes)
        return self.generic_visit(node)

    def visit_Add(self, node: nodes.Add) -> nodes.Node:
        parts: list[nodes.Expr] = [self.visit(part) for part in self._join_roles(_summands(node))]
        return reduce(lambda left, right: nodes.Add(left, right, lineno=node.lineno), parts)

    def _visit_replacing(self, node: nodes.Call | nodes.Filter, args: list[nodes.Expr]) -> nodes.Node:
        """Visit a node, but for what its first argument looks for."""
        wanted = args[:1]
        visited: nodes.Node = self.generic_visit(node)
        if wanted:
            args[0] = wanted[0]
        return visited

    def _join_roles(self, parts: list[nodes.Expr]) -> list[nodes.Expr]:
        """Find `'<|' + message.role + '|>'` and its like, and make each one expression."""
        parts = _merge_texts(parts)
        for n in range(1, len(parts) - 1):
            before, role, after = parts[n - 1 : n + 2]
            if not (_is_text(before) and _names_role(role) and _is_text(after)):
                continue
            frame = self._seal.role_frame(before.value, after.value)
            if frame is not None:
                before.value = before.value.removesuffix(frame[0])
                after.value = after.value.removeprefix(frame[1])
                args: list[nodes.Expr] = [nodes.Const(text, lineno=role.lineno) for text in frame]
                parts[n] = nodes.Filter(role, "control_token", args, [], None, None, lineno=role.lineno)
        return parts


def _is_text(node: nodes.Node) -> TypeGuard[nodes.Const]:
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _names_role(node: nodes.Expr) -> bool:
    """Say whether an expression is a variable, attribute or item called role."""
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == "role"
    return getattr(node, "attr", getattr(node, "name", None)) == "role"


def _summands(node: nodes.Expr) -> list[nodes.Expr]:
    return [*_summands(node.left), node.right] if isinstance(node, nodes.Add) else [node]


def _merge_texts(parts: list[nodes.Expr]) -> list[nodes.Expr]:
    """Turn template data into constants and join neighbours, so that a token in two halves is seen."""
    merged: list[nodes.Expr] = []
    for part in parts:
        if isinstance(part, nodes.TemplateData):
            part = nodes.Const(part.data, lineno=part.lineno)
        if merged and _is_text(part) and _is_text(last := merged[-1]):
            last.value += part.value
        else:
            merged.append(nodes.Const(part.value, lineno=part.lineno) if _is_text(part) else part)
    return merged
