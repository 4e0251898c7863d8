"""What there is to be looked for, by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from inference.safety.patterns import accounts, cards, credentials, emails, national_ids, phones
from inference.safety.patterns.hits import Finder
from inference.safety.patterns.phrases import Phrases
from inference.safety.patterns.shapes import Shapes

BLOCKLIST = "blocklist"
_SPARSE = (*credentials.RULES, *cards.RULES, *accounts.RULES, *phones.RULES, *national_ids.RULES)
_DENSE = emails.RULES  # any word may begin one: looked for apart, so that the others seldom have to look twice
RULES = (*_SPARSE, *_DENSE)
CATEGORIES = tuple(dict.fromkeys(rule.category for rule in RULES))
BY_NAME_ONLY = frozenset(rule.category for rule in national_ids.RULES)  # their groups do not stand for these


def finders_for(categories: Collection[str], blocklists: Mapping[str, Sequence[str]]) -> list[Finder]:
    """Return finders for categories and groups of them; raise `ValueError` for a name that nothing has."""
    wanted = members(categories, blocklists)
    lists = {f"{BLOCKLIST}.{name}": phrases for name, phrases in blocklists.items()}
    phrases = {category: lists[category] for category in sorted(wanted & lists.keys())}
    found: list[Finder] = []
    for rules in (_SPARSE, _DENSE):
        if chosen := [rule for rule in rules if rule.category in wanted]:
            found.append(Shapes(chosen))
    return [*found, Phrases(phrases)] if any(phrases.values()) else found


def members(categories: Collection[str], lists: Collection[str]) -> set[str]:
    """Return the categories that some categories and groups stand for; raise `ValueError` for an unknown name."""
    known = (*CATEGORIES, *(f"{BLOCKLIST}.{name}" for name in lists))
    return {member for name in categories for member in _members(name, known)}


def _members(name: str, known: Sequence[str]) -> list[str]:
    if name in known:
        return [name]
    found = [one for one in known if one.startswith(name + ".") and one not in BY_NAME_ONLY]
    if not found and name != BLOCKLIST:
        raise ValueError(
            f"categories: expected {', '.join((BLOCKLIST, 'personal_data', 'secrets', *known))}, not {name!r}."
        )
    return found
