from __future__ import annotations

import json
import shlex
import socket
import stat
from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from accounts.keys import find_key
from accounts.models import ApiKey
from config.demo import curl_line, demo_key
from config.management.commands.serve import banner, whole_number
from config.programs import CELERY, GATEWAYS, WORKERS, Choices, environment_of, service_programs

CHOICES = Choices(host="127.0.0.1", port=8000, gateways=2, workers=3, engine="simulated", model="tiny", quantize="int8")


def test_it_runs_each_part_in_the_order_of_the_drain() -> None:
    programs = service_programs(settings.SLUICE, CHOICES, {})

    assert [program.name for program in programs] == [
        *("gateway-1", "gateway-2"),
        *("worker-1", "worker-2", "worker-3"),
        *("celery", "beat"),
    ]
    assert [program.stage for program in programs] == [GATEWAYS] * 2 + [WORKERS] * 3 + [CELERY] * 2
    assert programs[0].grace_s > settings.SLUICE.drain_s


def test_it_leaves_its_children_nothing_to_guess() -> None:
    environment = environment_of(settings.SLUICE, CHOICES, "unix:///tmp/redis.sock")

    assert environment["REDIS_URL"] == "unix:///tmp/redis.sock"
    assert environment["SLUICE_HOME"] == str(settings.SLUICE.home_path)
    assert environment["SLUICE_MODELS"] == str(settings.SLUICE.models_path)
    assert (environment["SLUICE_ENGINE"], environment["SLUICE_MODEL"]) == ("simulated", "tiny")


def test_it_rejects_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as a gateway's is
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        with pytest.raises(CommandError, match=r"Cannot listen on 127\.0\.0\.1 port \d+: Address already in use"):
            call_command("serve", port=taken.getsockname()[1])


@pytest.mark.parametrize("text", ["0", "65536", "-1", "x", "1.5", ""])
def test_it_rejects_what_is_no_port(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="from 1 to 65535"):
        whole_number(1, 65535)(text)


@pytest.mark.django_db
def test_the_demo_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "demo.key"

    key = demo_key(path)

    assert find_key(key)
    assert demo_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ApiKey.objects.count() == 1


@pytest.mark.django_db
def test_the_demo_key_is_made_anew_for_another_database(tmp_path: Path) -> None:
    path = tmp_path / "demo.key"
    path.write_text("sk-sluice-abcdefgh-" + "x" * 43)

    assert find_key(demo_key(path))


def test_the_curl_line_can_be_pasted() -> None:
    command, *arguments = shlex.split(curl_line("http://127.0.0.1:8000", "key"))

    assert command == "curl"
    assert arguments[:2] == ["-N", "http://127.0.0.1:8000/v1/messages"]
    assert json.loads(arguments[-1])["stream"] is True


def test_the_banner_has_the_key_only_where_there_is_one() -> None:
    assert "curl" not in banner("http://127.0.0.1:8000", None)
    assert "Demo key: abc\n" in banner("http://127.0.0.1:8000", "abc")
