"""What the search for patterns costs: time and characters held back for each token, and how long sets take to build.

    python benchmarks/patterns.py

Texts come in pieces of four characters, about a token. The best of many runs counts, in time of the processor.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from inference.safety.patterns import CATEGORIES, PatternSet

TOKEN = 4
SECONDS = 0.5  # for each measurement
PROSE = (
    "The river rose in the night, and by the morning the lower meadow was a lake. Nobody had slept much; the children "
    "were sent to the mill with blankets, and the old men argued about the dam of 1954 as if it had been last week. "
    "“We should have listened,” said the wife of the miller, who never had. It was, all in all, a day for boats.\n\n"
)
GERMAN = (
    "Der Fluss stieg über Nacht, und am Morgen war die untere Wiese ein See. Niemand hatte viel geschlafen; die Kinder "
    "wurden mit Decken zur Mühle geschickt, und die Alten stritten über den Damm von 1954. Größer wurde er nie.\n"
)
CHINESE = "夜里河水上涨。到了早上下面的草地成了一片湖。没有人睡得好。孩子们带着毯子被送到磨坊。老人们争论着水坝的事。\n"
CODE = '''def total(rows: list[dict[str, int]], *, key: str = "amount") -> int:
    """Add up a column; rows without it count as nothing."""
    return sum(row.get(key, 0) for row in rows if row["id"] >= 1024)


@app.route("/items/<int:item_id>", methods=["GET"])
def show(item_id: int) -> Response:
    item = Item.objects.filter(pk=item_id, hidden=False).first()
    return JsonResponse({"id": item.pk, "price": 19.99, "tags": item.tags[:10]})
'''
NUMBERS = (
    "Year  Units  Price  Total\n2021  1,204  19.99  24,067.96\n2022  4,310  21.50  92,665.00\n"
    "2023  5,118  22.00  112,596.00\n"
    "On 2024-01-15 at 10:30, 3 of 12 pumps ran at 1450 rpm and 0.75 bar; order 0012345678 followed, version 2.10.3, "
    "from 192.168.10.25. 12 15 18 22 25 31 44 47 52 58 61 77 80 91 95\n"
)
TEXTS = {"prose": PROSE, "German": GERMAN, "Chinese": CHINESE, "code": CODE, "numbers": NUMBERS}
WORSE = {
    "letters": "a" * 4_000,
    "digits": "4" * 4_000,
    "at signs": "a@" * 2_000,
    "dots": "a." * 2_000,
    "dashes": "-" * 4_000,
    "groups": "4111 " * 800,
    "prefixes": "sk-" * 1_400,
    "invisible": "a\u200b" * 2_000,
}


def main() -> None:
    begun = time.thread_time()
    listed = PatternSet(["blocklist"], {"list": list(phrases(5_000))})
    built_ms = (time.thread_time() - begun) * 1e3
    default = ["secrets", "personal_data"]
    sets = {
        "secrets": PatternSet(["secrets"]),
        "secrets, personal data": PatternSet(default),
        "the same, mail not held": PatternSet(default, held=["secrets"]),
        "every category": PatternSet([*CATEGORIES]),
        "5,000 phrases": listed,
        "default and 5,000 phrases": PatternSet([*default, "blocklist"], {"list": list(phrases(5_000))}),
    }
    print(f"5,000 phrases take {built_ms:.0f} ms to build")
    table("µs a token", sets, cost_us, TEXTS)
    table("µs a token, worst texts", {"every category": sets["every category"]}, cost_us, WORSE)
    table("characters held", sets | {name: PatternSet([name]) for name in CATEGORIES}, held, TEXTS)


def table(
    title: str, sets: dict[str, PatternSet], measure: Callable[[PatternSet, str], float], texts: dict[str, str]
) -> None:
    print(f"\n{title:32}" + "".join(f"{name:>11}" for name in texts))
    for name, patterns in sets.items():
        print(f"{name:32}" + "".join(f"{measure(patterns, text):11.2f}" for text in texts.values()))


def phrases(count: int, seed: int = 1) -> Iterator[str]:
    """Yield made-up phrases of one to three words."""
    generator = random.Random(seed)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "an", "er")]
    for _ in range(count):
        yield " ".join(
            "".join(generator.choices(syllables, k=generator.randint(2, 4))) for _ in range(generator.randint(1, 3))
        )


def pieces(text: str) -> list[str]:
    return [text[at : at + TOKEN] for at in range(0, len(text), TOKEN)]


def cost_us(patterns: PatternSet, text: str) -> float:
    """Return what a token of a text costs."""
    tokens = pieces(text)
    best, until = float("inf"), time.monotonic() + SECONDS
    while time.monotonic() < until:
        scan = patterns.scan()
        begun = time.thread_time()
        for token in tokens:
            scan.push(token)
        best = min(best, time.thread_time() - begun)
    return best / len(tokens) * 1e6


def held(patterns: PatternSet, text: str) -> float:
    """Return how many characters are held back after a token, on average."""
    scan, length, total = patterns.scan(), 0, 0
    tokens = pieces(text * 5)
    for token in tokens:
        scan.push(token)
        length += len(token)
        total += length - scan.open_start
    return total / len(tokens)


if __name__ == "__main__":
    main()
