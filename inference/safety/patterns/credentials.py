"""Keys and tokens of common services. Each begins with letters that say what it is, or follows a word that does."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode

from inference.safety.patterns.shapes import Match, Rule, Shape, chars, either, marked, repeat, seq, words

_ALNUM, _HEX, _BASE64, _BASE64URL = "A-Za-z0-9", "0-9a-f", "A-Za-z0-9+/", r"A-Za-z0-9_\-"
_LONGEST = 256  # tokens without a fixed length count from their first characters on
_LONGEST_JWT = 512


def _varied(text: str) -> bool:
    """Say whether it looks random: no placeholder, no example of a manual."""
    return len(set(text)) >= max(6, min(len(text), 32) * 5 // 16) and "EXAMPLE" not in text.upper()


def _random(match: Match) -> bool:
    return _varied(match.group())


def _mixed(match: Match) -> bool:
    """Say whether it has small and capital letters and digits, as nearly all random ones of 40 characters have."""
    text = match.group(1)
    return _varied(text) and all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def _jwt(match: Match) -> bool:
    """Say whether the first part is the header of a JWT or a JWE; of a long one the end is not waited for."""
    text = match.group()
    parts = text.split(".")
    if len(parts) < 2 or not parts[1] or (len(parts) < 3 and len(text) < _LONGEST_JWT):
        return False
    try:
        header = json.loads(urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except ValueError:
        return False
    return isinstance(header, dict) and "alg" in header


_SEPARATORS = r"\s\"'`:=>,|*"
_QUOTE = chars("\"'`", 0, 1)
_AWS_ID = seq(either("AKIA", "ASIA", "ABIA", "ACCA"), chars("A-Z2-7", 16))
_AWS_SECRET = marked(chars(_BASE64, 40))
_AWS_WORDS = (
    "secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey", "secret access key",
    "Secret access key", "Secret Access Key", "secret_key", "SECRET_KEY", "secretKey", "secret key", "Secret key",
)  # fmt: skip

_SLACK, _SLACK_ID = rf"{_ALNUM}\-", chars(_ALNUM, 8, 12)

_PEM_KINDS = ("", "RSA ", "DSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "ANY ", "PGP ")
_PEM_FILL = chars(r"\s\\nr\"'+,>|#*", 0, 16)  # also `\n` as it is written in strings
_PEM_HEADERS = repeat(seq(chars(r"A-Za-z0-9\-", 4, 20), ": ", chars(r"^\n", 0, 80), "\n"), 0, 4)
_PEM_BODY = chars(_BASE64, 16)

# What it begins with, how it goes on; what it begins with are letters, not a regular expression.
_TOKENS: tuple[tuple[str, str, Shape], ...] = (
    ("aws_key", "AKIA ASIA ABIA ACCA", chars("A-Z2-7", 16)),
    ("google_key", "AIza", chars(_BASE64URL, 35)),
    ("google_key", "GOCSPX-", chars(_BASE64URL, 28)),
    ("google_key", "ya29.", chars(_BASE64URL, 40, _LONGEST)),
    ("google_key", "private_key_id", seq(chars(_SEPARATORS, 1, 6), chars(_HEX, 40))),
    ("azure_key", "AccountKey=", seq(chars(_BASE64, 86), "==")),
    ("azure_key", "SharedAccessKey=", seq(chars(_BASE64, 43), "=")),
    ("azure_key", "sig=", seq(chars(_BASE64 + "%", 43, 80), either("%3D", "="))),
    ("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", chars(_ALNUM, 36)),
    ("github_token", "github_pat_", seq(chars(_ALNUM, 22), "_", chars(_ALNUM, 59))),
    ("gitlab_token", "glpat- gldt- glrt- glsoat- glcbt- glptt-", chars(_BASE64URL, 20, 64)),
    ("slack_token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", seq(chars("0-9"), chars(_SLACK, 19, _LONGEST))),
    ("slack_token", "xapp-", seq(chars("0-9"), "-A", chars(_SLACK, 30, _LONGEST))),
    ("slack_token", "hooks.slack.com/services/", seq("T", _SLACK_ID, "/B", _SLACK_ID, "/", chars(_ALNUM, 24))),
    ("stripe_key", "sk_live_ rk_live_", chars(_ALNUM, 16, _LONGEST)),
    ("stripe_key", "whsec_", chars(_BASE64, 32, 64)),
    ("openai_key", "sk-", chars(_ALNUM, 48)),
    ("openai_key", "sk-", chars(_HEX, 32)),
    ("openai_key", "sk-proj- sk-svcacct- sk-admin-", chars(_BASE64URL, 40, _LONGEST)),
    ("anthropic_key", "sk-ant-", seq(chars("a-z0-9", 3, 10), "-", chars(_BASE64URL, 40, _LONGEST))),
    ("sluice_key", "sk-sluice-", seq(chars(_ALNUM, 8), "-", chars(_ALNUM, 43))),
    ("huggingface_token", "hf_", chars("A-Za-z", 34)),
    ("npm_token", "npm_", chars(_ALNUM, 36)),
    ("pypi_token", "pypi-AgE", chars(_BASE64URL, 50, _LONGEST)),
    ("sendgrid_key", "SG.", seq(chars(_BASE64URL, 22), ".", chars(_BASE64URL, 43))),
    ("twilio_key", "AC SK", chars(_HEX, 32)),
    ("service_key", "sk-or-v1-", chars(_HEX, 64)),
    ("service_key", "gsk_", chars(_ALNUM, 52)),
    ("service_key", "xai-", chars(_ALNUM, 80)),
    ("service_key", "r8_", chars(_ALNUM, 37)),
    ("service_key", "dop_v1_", chars(_HEX, 64)),
    ("service_key", "shpat_ shpss_ shpca_", chars("0-9a-fA-F", 32)),
    ("service_key", "dapi", chars(_HEX, 32)),
    ("service_key", "dckr_pat_", chars(_BASE64URL, 27)),
    ("service_key", "lin_api_", chars(_ALNUM, 40)),
    ("service_key", "hvs.", chars(_BASE64URL, 24, _LONGEST)),
    ("private_key", "AGE-SECRET-KEY-1", chars("0-9A-Z", 58)),
)  # fmt: skip


def _pem(start: str, kinds: tuple[str, ...], end: str) -> Shape:
    """A header counts with the first characters of its key, the rest is not waited for."""
    return seq(start, either(*kinds), end, _PEM_FILL, _PEM_HEADERS, _PEM_FILL, _PEM_BODY)


_PEMS = (
    _pem("-----BEGIN ", _PEM_KINDS, "PRIVATE KEY-----"),
    _pem("-----BEGIN ", ("PGP ",), "PRIVATE KEY BLOCK-----"),
    _pem("---- BEGIN ", ("SSH2 ENCRYPTED ", "SSH2 "), "PRIVATE KEY ----"),
)
_BEGINNINGS = [start for _, starts, _ in _TOKENS for start in starts.split()]
_START = words([*dict.fromkeys((*_BEGINNINGS, *_AWS_WORDS, "eyJ", "-----BEGIN ", "---- BEGIN "))])


def _rules() -> list[Rule]:
    tokens = [
        Rule(f"secrets.{name}", _START, seq(either(*starts.split()), rest), _random) for name, starts, rest in _TOKENS
    ]
    aws = [
        Rule(
            "secrets.aws_key",
            _START,
            seq(begin, chars(_SEPARATORS, 1, 8), either("is ", ""), _QUOTE, _AWS_SECRET),
            _mixed,
        )
        for begin in (either(*_AWS_WORDS), _AWS_ID)
    ]
    jwt = seq("eyJ", chars(_BASE64URL + ".", 20, _LONGEST_JWT - 3))
    return [
        *tokens,
        *aws,
        Rule("secrets.jwt", _START, jwt, _jwt, cut=True),
        *(Rule("secrets.private_key", _START, pem, cut=True) for pem in _PEMS),
    ]


RULES = tuple(_rules())
