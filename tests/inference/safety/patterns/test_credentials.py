from __future__ import annotations

import pytest

from inference.safety.patterns import PatternSet
from tests.inference.safety.patterns.samples import SECRETS, fill, jwt, letters, pem

PATTERNS = PatternSet(["secrets"])


def found(text: str) -> list[tuple[str, str]]:
    return [(hit.category.removeprefix("secrets."), text[hit.start : hit.end]) for hit in PATTERNS.find(text)]


@pytest.mark.parametrize("name", sorted(SECRETS.keys() - {"private_key"}))
def test_it_works(name: str) -> None:
    for text in ("{}", "key={};", '"{}"', "`{}`", "({}).", "https://x:{}@y", "密码{}。", "\\n{}\\n"):
        assert found(text.format(SECRETS[name])) == [(name, SECRETS[name])], text


@pytest.mark.parametrize("name", sorted(SECRETS.keys() - {"private_key", "jwt", "pypi_token"}))
def test_a_key_that_is_cut_is_none(name: str) -> None:
    assert found(SECRETS[name][: len(SECRETS[name]) // 3]) == []


@pytest.mark.parametrize("text", ["ghp_" + "x" * 36, "AKIAIOSFODNN7EXAMPLE", "hf_" + "ab" * 17, "npm_" + "0" * 36])
def test_placeholders_are_none(text: str) -> None:
    assert found(text) == []


def test_a_secret_key_counts_beside_what_says_so() -> None:
    secret = letters("base64", 40)
    assert found(f"AWS_SECRET_ACCESS_KEY={secret}") == [("aws_key", secret)]
    assert found(f"{SECRETS['aws_key']}: {secret}") == [("aws_key", SECRETS["aws_key"]), ("aws_key", secret)]
    assert found(f"sum {secret}") == []
    assert found("secret key " + secret.lower()) == []


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\n    ", "\n> "])
def test_a_header_counts_with_the_beginning_of_its_key(kind: str, end: str) -> None:
    ((name, span),) = found("x" + pem(kind, end))
    assert name == "private_key"
    assert span.startswith(f"-----BEGIN {kind}PRIVATE ")
    assert found(pem(kind, end).partition(end)[0] + end + "(left out)") == []


@pytest.mark.parametrize(
    "header",
    ["Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0011\n\n", "Version: 1\nComment: of Ann\n\n", ""],
)
def test_headers_of_the_key_may_stand_between(header: str) -> None:
    for kind in ("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"):
        assert [name for name, _ in found(f"-----BEGIN {kind}-----\n{header}{letters('base64', 64)}\n")] == [
            "private_key"
        ]


@pytest.mark.parametrize("kind", ["CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY", "PGP MESSAGE"])
def test_what_is_public_passes(kind: str) -> None:
    assert found(f"-----BEGIN {kind}-----\n{letters('base64', 64)}\n") == []


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        (jwt(), True),
        (jwt({"alg": "none"}, signature="") + ".", True),
        (jwt({"alg": "RS256"}, {"long": "x" * 2_000}), True),
        (jwt({"typ": "JWT"}), False),
        (jwt(["alg"]), False),
        (jwt(signature=""), False),
        (jwt().split(".")[0], False),
        ("eyJ" + letters("url", 40) + "." + letters("url", 40) + "." + letters("url", 40), False),
    ],
)
def test_a_jwt_has_a_header_that_says_so(text: str, finds: bool) -> None:
    assert [name for name, _ in found(text)] == ["jwt"] * finds


def test_a_long_token_counts_before_its_end() -> None:
    scan = PATTERNS.scan()
    assert [hit.category for hit in scan.push(jwt({"alg": "RS256"}, {"long": "x" * 2_000}))] == ["secrets.jwt"]


@pytest.mark.parametrize("hidden", ["\u200b", "\u00ad", "\u2060", "\ufeff", "\ufe0f", "\u202e"])
def test_invisible_characters_hide_nothing(hidden: str) -> None:
    key = SECRETS["github_token"]
    assert found(hidden.join(key)) == [("github_token", hidden.join(key))]


def test_case_matters() -> None:
    assert found(SECRETS["github_token"].replace("ghp", "GHP")) == []
    assert found(fill("akia{base32:16}")) == []
