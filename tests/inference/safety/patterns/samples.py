"""Made-up texts to look for. Keys are put together here, so that no scanner of a code host takes them for real ones."""

from __future__ import annotations

import json
import random
import re
import string
from base64 import urlsafe_b64encode

_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "hex": "0123456789abcdef",
    "base32": string.ascii_uppercase + "234567",
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
}


def letters(alphabet: str, count: int, seed: int = 1) -> str:
    """Return letters that look random, the same ones each time; none of the marks at an end."""
    generator = random.Random(f"{alphabet} {count} {seed}")
    plain = [letter for letter in _ALPHABETS[alphabet] if letter.isalnum()]
    body = generator.choices(_ALPHABETS[alphabet], k=count - 2)
    return "".join([generator.choice(plain), *body, generator.choice(plain)])


def jwt(header: object = None, payload: object = None, signature: str = "s") -> str:
    parts = (
        {"alg": "HS256", "typ": "JWT"} if header is None else header,
        payload or {"sub": "1234567890", "name": "Ann"},
    )
    texts = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*texts, letters("url", 43)] if signature else texts)


def pem(kind: str = "RSA ", end: str = "\n") -> str:
    lines = [letters("base64", 64, seed) for seed in range(3)]
    return end.join([f"-----BEGIN {kind}PRIVATE " + "KEY-----", *lines, f"-----END {kind}PRIVATE " + "KEY-----"])


def fill(template: str) -> str:
    """Put keys into a template: `{alnum:36}` stands for letters, `{jwt}` and `{pem:RSA }` for what they say."""

    def one(match: re.Match[str]) -> str:
        kind, _, detail = match.group(1).partition(":")
        if kind == "jwt":
            return jwt()
        if kind == "pem":
            return pem(detail)
        if kind == "pem in a string":
            return pem(detail, "\\n")
        if kind.startswith("head of pem"):  # what is reported: the header, and what shows that a key follows
            end = "\\n" if "string" in kind else "\n"
            header, line, *_ = pem(detail, end).split(end)
            return header + end + line[:16]
        return letters(kind, int(detail))

    return re.sub(
        r"\{((?:jwt|(?:head of )?pem(?: in a string)?|" + "|".join(_ALPHABETS) + r")(?::[^}]*)?)\}", one, template
    )


SECRETS = {
    name: fill(template)
    for name, template in {
        "aws_key": "AKIA{base32:16}",
        "google_key": "AIza{url:35}",
        "azure_key": "AccountKey={base64:86}==",
        "github_token": "ghp_{alnum:36}",
        "gitlab_token": "glpat-{url:20}",
        "slack_token": "xoxb-{digits:12}-{digits:13}-{alnum:24}",
        "stripe_key": "sk_live_{alnum:24}",
        "openai_key": "sk-proj-{url:64}",
        "anthropic_key": "sk-ant-api03-{url:95}",
        "sluice_key": "sk-sluice-{alnum:8}-{alnum:43}",
        "huggingface_token": "hf_{letters:34}",
        "npm_token": "npm_{alnum:36}",
        "pypi_token": "pypi-AgEIcHlwaS5vcmc{url:140}",
        "sendgrid_key": "SG.{url:22}.{url:43}",
        "twilio_key": "SK{hex:32}",
        "service_key": "gsk_{alnum:52}",
        "private_key": "{pem:RSA }",
        "jwt": "{jwt}",
    }.items()
}
PERSONAL = {
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "email": "ann.example@example.org",
    "phone": "+49 30 12345678",
    "us_ssn": "536-22-1234",
    "uk_nino": "AB 12 34 56 C",
    "de_steuer_id": "86095742719",
    "es_dni": "12345678Z",
    "fr_nir": "2 55 08 14 168 025 38",
    "it_codice_fiscale": "RSSMRA85T10A562S",
    "br_cpf": "529.982.247-25",
    "in_aadhaar": "2341 2341 2346",
    "ch_ahv": "756.9217.0769.85",
    "cn_resident_id": "11010519491231002X",
}
BLOCKLISTS = {
    "projects": ["Project Bluebird", "Operation Überfluss", "code name Straße"],
    "insults": [
        "numbskull", "Dummkopf", "болван", "crétin", "笨蛋", "ばかもの", "바보", "โง่", "मूर्ख", "أحمق", "טיפש", "βλάκας",
        "c3po++",
    ],
}  # fmt: skip
