"""Links from a row of one list to what it names in others."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.html import format_html


def page_of(model: str, id: Any, text: Any, /) -> str:
    """Return a link to the page of one row; `model` is its app's name and its own: `accounts_apikey`."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:{model}_change", args=[quote(str(id))]), text)


def list_of(model: str, text: Any, /, **filters: Any) -> str:
    """Return a link to a list of rows."""
    return format_html('<a href="{}?{}">{}</a>', reverse(f"admin:{model}_changelist"), urlencode(filters), text)
