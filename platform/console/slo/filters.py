"""What one asks the pages for: a window, a model, an organisation."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms
from django.http import QueryDict

from accounts.models import Organization
from records.admin.filters import SHOWN, names_in
from records.models import RequestRecord
from slo.windows import DEFAULT, WINDOWS, Window

Choices = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A window, and the names that it is restricted to; an empty one is no restriction."""

    window: Window
    model: str
    organization: str  # its id


class Filters(forms.Form):
    """The form above the charts, sent by GET. Without a window it is about the usual one."""

    window = forms.ChoiceField(required=False)
    model = forms.ChoiceField(required=False)
    organization = forms.ChoiceField(required=False, label="Organisation")

    def __init__(self, asked: QueryDict) -> None:
        super().__init__({"window": DEFAULT.name, "model": "", "organization": ""} | asked.dict())
        self._offer("window", [(window.name, window.label) for window in WINDOWS.values()])
        self._offer("model", [("", "all models"), *((name, name) for name in names_in(RequestRecord, "model"))])
        self._offer("organization", [("", "all organisations"), *_organizations(self.data["organization"])])

    @property
    def asked(self) -> Asked:
        """What a valid form says."""
        said = self.cleaned_data
        return Asked(WINDOWS[said["window"] or DEFAULT.name], said["model"], said["organization"])

    def _offer(self, name: str, choices: Choices) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        noun = str(field.label or name).lower()
        field.error_messages["invalid_choice"] = f"There is no {noun} “%(value)s”. Choose one of the list."


def _organizations(chosen: str) -> Choices:
    """Return the first of them, and whichever is chosen."""
    found = list(Organization.objects.order_by("name").values_list("id", "name")[:SHOWN])
    if chosen and chosen not in dict(found):
        found += Organization.objects.filter(pk=chosen).values_list("id", "name")
    return found
