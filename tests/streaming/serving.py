"""Our server in a process of its own, and what it takes to talk to it."""

from __future__ import annotations

import http.client
import os
import select
import socket
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.environment import ROOT


class Process:
    """The server in a process of its own, since a reactor cannot be started twice."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.streaming.server_app", *arguments]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `stop`
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        assert self.process.stdout is not None
        self.out: IO[str] = self.process.stdout
        self.port = int(self.out.readline())

    def stop(self) -> str:
        """Stop the server, which has to end well; return what it printed."""
        self.process.terminate()
        assert self.process.wait(10) == 0
        with self.out, self.errors:
            self.errors.seek(0)
            log = self.errors.read()
            assert "a connection failed" not in log, log
            return self.out.read()

    @property
    def cpu_s(self) -> float:
        """What the process has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        return sock

    def raw(self, request: bytes) -> bytes:
        """Send bytes, return all that comes until the server closes."""
        with self.connect() as sock:
            sock.sendall(request)
            return read_to_the_end(sock)

    def get(self, path: str) -> bytes:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        client.request("GET", path)
        body = client.getresponse().read()
        client.close()
        return body


def read_to_the_end(sock: socket.socket) -> bytes:
    got = b""
    while piece := sock.recv(65536):
        got += piece
    return got


def drip(sock: socket.socket, piece: bytes) -> bytes:
    """Send a piece ten times a second until the server closes; return what it said."""
    sock.settimeout(0.1)
    got = b""
    while True:
        try:
            said = sock.recv(65536)
        except TimeoutError:
            sock.sendall(piece)
        else:
            if not said:
                return got
            got += said


def is_cut(sock: socket.socket, *, within_s: float) -> bool:
    """Say whether the server ends the connection, without reading from it."""
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(within_s * 1000))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for localhost, signed by itself, and its key; return their paths."""
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
