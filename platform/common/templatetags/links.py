"""Links in templates as they are in lists: `{% load links %}`."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.template import Context, Library

from common import links

register = Library()


@register.simple_tag(takes_context=True)
def page_of(context: Context, row: Model | None, text: Any) -> str:
    """Link a text to the page of a row, for whoever may see that."""
    return links.page_of(context["request"], row, text)
