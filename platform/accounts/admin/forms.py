"""The forms of keys and organisations."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Field

from accounts.ceilings import excesses
from accounts.models import ApiKey, Organization, all_scopes, default_scopes, model_names, new_key_id
from accounts.terms import DEFAULT_POLICY, SCOPES
from safety.models import policy_names

_KEY_ID = re.compile(r"key_[0-9A-Za-z]{24}")


def empty_choice(field: Field[Any, Any], meaning: str) -> Any:
    """Return the form field of a choice, which says what leaving it empty means."""
    return field.formfield(choices=field.get_choices(blank_choice=[("", f"({meaning})")]))


class ScopesField(forms.MultipleChoiceField):
    """Scopes to tick."""

    def __init__(self, **more: Any) -> None:
        choices = [(scope, scope) for scope in SCOPES]
        super().__init__(choices=choices, widget=forms.CheckboxSelectMultiple, **more)


class ModelNamesField(forms.CharField):
    """Names of models between commas or line breaks; none stands for all, which is null in the database."""

    def __init__(self, **more: Any) -> None:
        text = "Names between commas or line breaks; empty means all."
        super().__init__(required=False, help_text=text, widget=forms.Textarea(attrs={"rows": 2}), **more)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str] | None:
        names = list(dict.fromkeys(filter(None, map(str.strip, re.split(r"[,\r\n]", value or "")))))
        if names:
            model_names(names)
        return names or None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


class PolicyField(forms.ChoiceField):
    """A safety policy to choose, of those there are now."""

    def __init__(self, *, unless: str, **more: Any) -> None:
        def choices() -> list[tuple[str, str]]:
            return [("", f"({unless})"), *((name, name) for name in policy_names())]

        super().__init__(label="Safety policy", choices=choices, required=False, **more)


class OrganizationForm(forms.ModelForm[Organization]):
    """An organisation."""

    scopes = ScopesField(
        initial=all_scopes, help_text="What its keys may have. Taking one away takes it from all of them."
    )
    allowed_models = ModelNamesField()
    policy = PolicyField(unless=DEFAULT_POLICY)

    class Meta:
        model = Organization
        fields = "__all__"


class KeyForm(forms.ModelForm[ApiKey]):
    """A key. In the hands of a member it is `bounded`: it gets no more than the organisation has."""

    bounded: ClassVar[bool] = False
    scopes = ScopesField(initial=default_scopes)
    allowed_models = ModelNamesField()
    policy = PolicyField(unless="the organisation's")

    class Meta:
        model = ApiKey
        fields = "__all__"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        organization = cleaned.get("organization") or (
            None if self.instance._state.adding else self.instance.organization
        )
        if self.bounded and organization:
            given = {name: value for name, value in cleaned.items() if name in self.changed_data}
            for field, expected in excesses(organization, given).items():
                self.add_error(field, expected)
        return cleaned


class NewKeyForm(KeyForm):
    """A key to be made. Its id comes with the form, so that one sent twice makes one key."""

    new_id = forms.CharField(widget=forms.HiddenInput, initial=new_key_id, required=False)

    def clean_new_id(self) -> str:
        new_id = str(self.cleaned_data["new_id"] or new_key_id())
        if not _KEY_ID.fullmatch(new_id):
            raise ValidationError("Reload the page.")
        if ApiKey.objects.filter(pk=new_id).exists():
            raise ValidationError("This key was made already, and its text is not shown again: rotate it for another.")
        return new_id
