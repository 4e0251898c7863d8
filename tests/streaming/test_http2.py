"""HTTP/2 over TLS, by a real client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.streaming.test_server import Process


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path]) -> Iterator[Process]:
    made = Process(*map(str, certificate))
    yield made
    made.process.terminate()
    assert made.process.wait(10) == 0
    made.out.close()


@pytest.fixture
def trust(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate[0]))


def url_of(server: Process, path: str) -> str:
    return f"https://localhost:{server.port}{path}"


async def test_streams_share_a_connection(server: Process, trust: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
        answers = await asyncio.gather(*(client.get(url_of(server, f"/fast/{n}")) for n in (3, 200, 50)))
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert [answer.text.splitlines()[-1] for answer in answers] == ["2", "199", "49"]


async def test_a_body_that_is_too_long_is_refused(server: Process, trust: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
        refused = await client.post(url_of(server, "/echo"), content=b"x" * 2000)
        assert (refused.status_code, refused.json()["error"]["type"]) == (413, "request_too_large")
        assert (await client.post(url_of(server, "/echo"), content=b"fine")).content == b"fine"


async def test_a_dropped_stream_leaves_the_others(server: Process, trust: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(http2=True, http1=False, verify=trust) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get(url_of(server, "/drop"))
        assert (await client.get(url_of(server, "/fast/2"))).text == "0\n1\n1\n"


def test_http_1_over_tls(server: Process, trust: ssl.SSLContext) -> None:
    with httpx.Client(verify=trust) as client:
        answer = client.get(url_of(server, "/fast/100"))
    assert (answer.http_version, answer.text.splitlines()[-1]) == ("HTTP/1.1", "99")
