"""The forms of policies' rules."""

from __future__ import annotations

from typing import Any

from django import forms

from inference.protocol.categories import NATIONAL_IDS, PATTERN_GROUPS, PATTERNS, TOXICITY, blocklist
from safety.models import SafetyRule


class CategoriesField(forms.CharField):
    """Names of categories between commas; none stands for all."""

    def __init__(self, **more: Any) -> None:
        super().__init__(required=False, widget=forms.TextInput(attrs={"size": 30}), **more)

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(str, value)) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[str]:
        return list(dict.fromkeys(filter(None, map(str.strip, (value or "").split(",")))))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


class RuleForm(forms.ModelForm[SafetyRule]):
    """A rule."""

    categories = CategoriesField()

    class Media:
        css = {"all": ["safety/rules.css"]}

    class Meta:
        model = SafetyRule
        fields = "__all__"
        widgets = {
            "position": forms.NumberInput(attrs={"class": "rule-position"}),
            "threshold": forms.NumberInput(attrs={"class": "rule-threshold", "step": "any"}),
            "model": forms.TextInput(attrs={"size": 20}),
        }


# Checks, what there is to say of them, and their categories.
CHECKS = (
    ("patterns", "What can be told by its form:", (*PATTERN_GROUPS, *PATTERNS, blocklist("NAME"))),
    ("patterns, only where a rule names it", "Identity numbers:", NATIONAL_IDS),
    ("toxicity", "The bundled model, which has one category. It errs on some harmless sentences.", (TOXICITY,)),
    (
        "transformer",
        "A model of your own: a folder in SLUICE_MODELS, or a name on Hugging Face. Its categories are its labels.",
        (),
    ),
)
