"""Stop strings: text leaves only when it cannot be part of one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from inference.text import Piece


class Node:
    """A beginning of one or more stop strings (Aho and Corasick's automaton)."""

    __slots__ = ("children", "depth", "fallback", "stop")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.children: dict[str, Node] = {}
        self.fallback: Node = self  # the longest other beginning that this one ends with
        self.stop: str | None = None  # the longest stop string that this beginning ends with

    def step(self, character: str) -> Node:
        """Return the longest beginning that the text ends with after one more character."""
        node = self
        while character not in node.children:
            if node.depth == 0:
                return node
            node = node.fallback
        return node.children[character]


class StopStrings:
    """Cuts a text before the stop string that starts first; of those that start together, the shortest.

    A match is only final when no other can start before it any more. `matched` names it then. Tool calls are no text:
    what they hold stops nothing, and no stop string goes across one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.matched: str | None = None
        self._root = self._node = build(stops) if stops else None
        self._held: deque[Piece] = deque()
        self._base = 0  # position in the text where the held pieces start
        self._end = 0  # position up to which the text was searched
        self._match: tuple[int, str] | None = None  # the best so far: its start and the string

    def push(self, piece: Piece) -> list[Piece]:
        """Take a piece; return the pieces that are free to go."""
        if self._node is None:
            return [piece]
        if self.matched is not None:
            return []
        self._held.append(piece)
        return self._cut() if self._search_piece(piece) else list(self._release(self._open_start))

    def flush(self) -> list[Piece]:
        """Return what is held at the end of the text; this can still be a match."""
        if self._match is not None and self.matched is None:
            return self._cut()
        pieces = list(self._held)
        self._held.clear()
        return pieces

    @property
    def _open_start(self) -> int:
        """Where the longest beginning of a stop string starts that the text ends with."""
        return self._end - self._node.depth if self._node else self._end

    def _search_piece(self, piece: Piece) -> bool:
        """Go on through the text around calls; say whether the match is final."""
        start = 0
        for part in piece.calls:
            if self._search(piece.text[start : part.at]) or self._match is not None:
                return True
            self._node, start = self._root, part.at
        return self._search(piece.text[start:])

    def _search(self, text: str) -> bool:
        """Go on through the text; say whether the match is final."""
        node = self._node
        assert node is not None, "without stop strings nothing is searched"
        for character in text:
            node = self._node = node.step(character)
            self._end += 1
            if node.stop is not None:
                start = self._end - len(node.stop)
                if self._match is None or start < self._match[0]:
                    self._match = start, node.stop
            if self._match is not None and self._end - node.depth >= self._match[0]:
                return True
        return False

    def _release(self, limit: int) -> Iterator[Piece]:
        """Let the pieces go that end at or before a position."""
        while self._held and self._base + len(self._held[0].text) <= limit:
            piece = self._held.popleft()
            self._base += len(piece.text)
            yield piece

    def _cut(self) -> list[Piece]:
        """Let the text before the match go, and nothing after; a piece that is cut counts with all its tokens."""
        assert self._match is not None, "only a match cuts"
        start, self.matched = self._match
        pieces = list(self._release(start))
        rest = self._held[0].until(start - self._base)
        if rest.text or rest.calls:
            pieces.append(rest)
        self._held.clear()
        return pieces


def build(stops: Sequence[str]) -> Node:
    """Build the automaton of some stop strings."""
    root = Node(0)
    for stop in stops:
        if not stop:
            raise ValueError("an empty stop string would end every text at once")
        node = root
        for character in stop:
            node = node.children.setdefault(character, Node(node.depth + 1))
        node.stop = stop
    _link(root)
    return root


def _link(root: Node) -> None:
    """Set the fallbacks, the short ones first, since the longer build on them."""
    waiting = deque([root])
    while waiting:
        node = waiting.popleft()
        for character, child in node.children.items():
            child.fallback = root if node is root else node.fallback.step(character)
            child.stop = child.stop or child.fallback.stop
            waiting.append(child)
