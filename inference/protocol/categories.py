"""What safety checks can find, by name: `secrets.jwt` belongs to the group `secrets`. Rules name groups or members."""

from __future__ import annotations

BLOCKLIST = "blocklist"  # its members are the operators' lists, by their names
TOXICITY = "toxicity"  # the one class of the bundled model

# Of the check `patterns`, as `inference.safety.patterns` finds them.
PATTERNS = (
    "secrets.anthropic_key",
    "secrets.aws_key",
    "secrets.azure_key",
    "secrets.github_token",
    "secrets.gitlab_token",
    "secrets.google_key",
    "secrets.huggingface_token",
    "secrets.jwt",
    "secrets.npm_token",
    "secrets.openai_key",
    "secrets.private_key",
    "secrets.pypi_token",
    "secrets.sendgrid_key",
    "secrets.service_key",
    "secrets.slack_token",
    "secrets.sluice_key",
    "secrets.stripe_key",
    "secrets.twilio_key",
    "personal_data.card",
    "personal_data.email",
    "personal_data.iban",
    "personal_data.phone",
)
# Found only where a rule names them: their group does not stand for them.
NATIONAL_IDS = (
    "personal_data.br_cpf",
    "personal_data.ch_ahv",
    "personal_data.cn_resident_id",
    "personal_data.de_steuer_id",
    "personal_data.es_dni",
    "personal_data.fr_nir",
    "personal_data.in_aadhaar",
    "personal_data.it_codice_fiscale",
    "personal_data.uk_nino",
    "personal_data.us_ssn",
)
PATTERN_GROUPS = ("secrets", "personal_data", BLOCKLIST)


def blocklist(name: str) -> str:
    """Return the category of what an operator's list finds."""
    return f"{BLOCKLIST}.{name}"
