"""Links in templates as they are in lists: `{% load links %}`."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.models import Model
from django.template import Context, Library
from django.utils.html import format_html

from common import links

register = Library()


@register.simple_tag(takes_context=True)
def page_of(context: Context, row: Model | None, text: Any) -> str:
    """Link a text to the page of a row, for whoever may see that."""
    return links.page_of(context["request"], row, text)


@register.simple_tag(takes_context=True)
def tool_to(context: Context, rows: str, text: str, field: str, value: str) -> str:
    """Make the button above a form that leads to a list of a model's rows; nothing for who may not see that."""
    model = apps.get_model(rows)
    request = context["request"]
    if not links.has_list(request, model):
        return ""
    return format_html("<li>{}</li>", links.list_of(request, model, text, **{field: value}))
