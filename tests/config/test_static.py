"""Static files, with nothing collected and with all."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
from channels.testing import HttpCommunicator
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.test import Client, RequestFactory
from django.test.utils import override_settings
from whitenoise.responders import StaticFile  # type: ignore[import-untyped]  # it has no types

from config.handler import Handler
from config.static import StaticFiles
from tests.environment import ROOT

CSS = "/static/admin/css/base.css"


def test_it_works(client: Client) -> None:
    r = client.get(CSS)
    assert (r.status_code, r.headers["content-type"]) == (200, 'text/css; charset="utf-8"')
    assert b"--primary" in r.content


async def test_the_gateway_serves_them_without_a_warning() -> None:
    communicator = HttpCommunicator(Handler(), "GET", CSS, headers=[(b"host", b"localhost")])
    answer = await communicator.get_response(timeout=20)
    await communicator.wait(timeout=20)
    headers = dict(answer["headers"])
    assert answer["status"] == 200
    assert int(headers[b"Content-Length"]) == len(answer["body"]) > 1000
    assert headers[b"request-id"].startswith(b"req_")


def test_a_part_and_a_head_and_nothing_new(client: Client) -> None:
    part = client.get(CSS, headers={"range": "bytes=0-9"})
    assert (part.status_code, len(part.content)) == (206, 10)
    head = client.head(CSS)
    assert (head.status_code, head.content) == (200, b"")
    assert client.get(CSS, headers={"if-none-match": head.headers["etag"]}).status_code == 304


def test_a_file_that_has_changed_is_as_long_as_is_said(rf: RequestFactory, tmp_path: Path) -> None:
    """As when the code is replaced before the process is."""
    file = tmp_path / "page.js"
    file.write_text("a long script")
    found = StaticFile(str(file), [("Content-Type", "text/javascript")])
    file.write_text("short")
    r = StaticFiles.serve(found, rf.get("/static/page.js"))
    assert (r.content, r.headers["content-length"]) == (b"short", "5")


@pytest.mark.parametrize("path", ["/static/", "/static/admin", "/static/../manage.py", "/static/admin/css/none.css"])
def test_nothing_else_is_served(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_the_login_page_finds_its_style(client: Client) -> None:
    assert CSS in client.get("/admin/login/").content.decode()


def test_collected_files_are_hashed_and_compressed(tmp_path: Path) -> None:
    with override_settings(STATIC_ROOT=tmp_path / "static"):
        call_command("collectstatic", interactive=False, verbosity=0)
        staticfiles_storage._setup()  # type: ignore[attr-defined]  # as a new process would
        client = Client()
        page = client.get("/admin/login/").content.decode()
        (url,) = re.findall(r"/static/admin/css/base\.\w{12}\.css", page)
        r = client.get(url, headers={"accept-encoding": "gzip"})
        assert staticfiles_storage.url("not/collected.css") == "/static/not/collected.css"
    staticfiles_storage._setup()  # type: ignore[attr-defined]
    assert b"--primary" in gzip.decompress(r.content)
    assert "immutable" in r.headers["cache-control"]


def test_an_image_has_them_with_its_code(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    look = (
        "import sys, pathlib, inference.protocol.settings as ours\n"
        "ours.ROOT = pathlib.Path(sys.argv[1])\n"
        "from config.settings import STATIC_ROOT; print(STATIC_ROOT)\n"
    )
    command = [sys.executable, "-c", look, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'static'}\n"
