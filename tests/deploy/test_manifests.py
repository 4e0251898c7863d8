"""The image, compose and Kubernetes: they agree with the code, and with each other. Schemas know the rest."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from django.conf import settings
from django.core.management import get_commands, load_command_class

from config.programs import Choices, service_programs
from inference.models import DEFAULT_MODEL
from inference.protocol.settings import Settings, variable_of
from streaming.gateway import Gateway
from streaming.paths import OF_GATEWAYS
from streaming.routes import routes
from tests.deploy.manifests import (
    COMPOSE,
    DEPLOY,
    KUBERNETES,
    ONCE,
    OURS,
    RESOURCES,
    SERVICES,
    TEXTS,
    Run,
    files_of,
    named,
    pod_of,
    runs,
)
from tests.environment import ROOT

OF_COMPOSE = {"SLUICE_IMAGE", "SLUICE_CUDA_IMAGE", "SLUICE_LISTEN"}  # the one file's own variables
SETTINGS = {variable_of(row.name) for row in fields(Settings)}
RUNS = runs()
LASTING = [run for run in RUNS if run.grace_s]
PATHS = [
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/chat/completions",
    "/v1/streams",
    "/v1/streams/m/message",
    "/v1/models",
    "/v1/models/a/b",
    "/v1/messages/batches",
    "/v1/messages/",
    "/v1/modelsx",
    "/v1/usage",
    "/admin/",
    "/",
    "/metrics",
]


def name_of(run: Run) -> str:
    return run.where


def test_every_setting_in_them_is_one() -> None:
    for where, text in TEXTS.items():
        assert set(re.findall(r"\bSLUICE_[A-Z_]*[A-Z]", text)) <= SETTINGS | OF_COMPOSE, where


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_every_command_is_one(run: Run) -> None:
    for command in (run.command, *run.probes):
        assert command[0] == "python"
        if command[1] == "manage.py":
            made = load_command_class(get_commands()[command[2]], command[2])
            made.create_parser("manage.py", command[2]).parse_args(command[3:])
        elif command[1] == "-m":
            assert importlib.util.find_spec(command[2])


@pytest.mark.parametrize("name", ["celery", "beat"])
def test_celery_is_started_as_serve_starts_it(name: str) -> None:
    choices = Choices(host="", port=0, gateways=0, workers=0, engine="", model="", quantize="")
    ours = replace(settings.SLUICE, home="/var/lib/sluice")
    (wanted,) = [list(one.command[1:]) for one in service_programs(ours, choices, {}) if one.name == name]
    assert [run.command[1:] for run in RUNS if run.where.endswith(f"/{name}")] == [wanted, wanted]


def test_probes_ask_for_what_there_is() -> None:
    served = {f"/{route.pattern}" for route in routes(cast(Gateway, object()))}
    asked = [path for run in RUNS for path in run.paths]
    asked += re.findall(r"http://127\.0\.0\.1:?\d*(/\w+)", str(COMPOSE))
    assert {"/healthz", "/readyz"} == set(asked) <= served


@pytest.mark.parametrize("run", LASTING, ids=name_of)
def test_they_have_time_to_drain(run: Run) -> None:
    assert run.grace_s > Settings().drain_s + run.patience_s or run.where.endswith("/beat")


def test_those_that_drain_have_a_grace() -> None:
    drain = {
        f"{where}/{name}" for where in ("compose", "kubernetes") for name in ("gateway", "web", "worker", "celery")
    }
    assert drain <= {run.where for run in LASTING}


def test_who_waits_gives_a_model_time_to_load() -> None:
    slow = ("gateway", "web", "worker", "proxy")  # `up --wait` ends at the first that is unhealthy
    assert {SERVICES[name]["healthcheck"]["start_period"] for name in slow} == {"10m"}
    shared = yaml.safe_load((KUBERNETES / "base" / "pod.yaml").read_text())
    probes = [pod_of(one)["containers"][0].get("startupProbe") for one in named("Deployment").values()]
    patience = [probe["periodSeconds"] * probe["failureThreshold"] for probe in probes if probe]
    assert max(patience) < shared["spec"]["progressDeadlineSeconds"]


def test_nothing_that_serves_nobody_holds_up_a_node() -> None:
    budgets = named("PodDisruptionBudget")
    assert set(budgets) == {"gateway", "web", "worker"}
    assert {one["spec"]["unhealthyPodEvictionPolicy"] for one in budgets.values()} == {"AlwaysAllow"}


def test_postgres_is_asked_where_it_serves() -> None:
    assert "--host" in SERVICES["postgres"]["healthcheck"]["test"], "its image sets it up on a socket alone"


def test_the_image_is_of_this_version() -> None:
    tags = re.findall(r"(?:\bsluice:|newTag: )(\d[\w.-]*)", "\n".join(TEXTS.values()))
    assert len(tags) > 5
    assert {tag.removesuffix("-cuda") for tag in tags} == {version("sluice")}


def test_every_image_has_a_version() -> None:
    for name, service in SERVICES.items():
        assert re.search(r":\d[\w.-]*}?$", service["image"]), name
    assert ":latest" not in "".join(TEXTS.values())
    assert re.search(r"^ARG PYTHON=\d", TEXTS["Dockerfile"], re.M)


def test_no_secret_is_in_them() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    assert not re.findall(r"^[A-Z_]*(?:KEY|PASSWORD|TOKEN)=(.+)", TEXTS["deploy/env.example"], re.M)
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            if re.search(r"SECRET|PASSWORD|TOKEN", variable) or "@" in str(value):
                assert re.search(r"\$\{\w+:\?", value), variable
    assert [where for where, text in TEXTS.items() if "kind: Secret\n" in text] == [
        "deploy/kubernetes/secret.example.yaml"
    ]
    assert all("example" in value for value in named("Secret")["sluice"]["stringData"].values())


def test_compose_shows_nothing_but_the_proxy() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]


def test_compose_starts_all_again_that_last() -> None:
    assert {name for name, service in SERVICES.items() if service["restart"] != "unless-stopped"} == ONCE


def test_compose_gives_no_worker_what_it_has_no_need_of() -> None:
    assert {"DATABASE_URL", "SLUICE_SECRET_KEY"}.isdisjoint(SERVICES["worker"]["environment"])


def test_only_who_brings_models_can_write_them() -> None:
    writers = [name for name, service in OURS.items() if "models:/models" in service["volumes"]]
    assert writers == ["models"]
    mounts = [
        mount
        for resource in (named("Job") | named("Deployment")).values()
        for mount in pod_of(resource)["containers"][0].get("volumeMounts", [])
    ]
    assert mounts == [{"name": "models", "mountPath": "/models"}], "the Job's; all others have theirs by base/pod.yaml"
    shared = yaml.safe_load((KUBERNETES / "base" / "pod.yaml").read_text())
    assert pod_of(shared)["containers"][0]["volumeMounts"] == [mounts[0] | {"readOnly": True}]


def test_what_nginx_is_before_is_there() -> None:
    text = (DEPLOY / "nginx" / "upstreams.compose.conf").read_text()
    servers = dict(re.findall(r"server (\w+):(\d+)", text))
    assert set(servers) == {"gateway", "web"}
    for name, port in servers.items():
        command = SERVICES[name]["command"]
        assert command[command.index("--port") + 1] == port
    upstreams = [
        re.findall(r"^upstream (\w+)", (DEPLOY / "nginx" / f"upstreams{kind}.conf").read_text(), re.M)
        for kind in ("", ".compose")
    ]
    used = re.findall(r"proxy_pass http://(\w+)", (DEPLOY / "nginx" / "sluice.conf").read_text())
    assert set(used) == set(upstreams[0]) == set(upstreams[1])


def test_what_compose_mounts_is_there() -> None:
    files = [volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])]
    assert all((DEPLOY / name).is_file() for name in files if name.startswith("."))
    assert {name for name in files if not name.startswith(".")} == set(COMPOSE["volumes"])


@pytest.mark.parametrize(
    "kustomization", sorted(KUBERNETES.rglob("kustomization.yaml")), ids=lambda path: path.parent.name
)
def test_a_kustomization_names_the_files_beside_it(kustomization: Path) -> None:
    named_files = files_of(kustomization)
    assert [path for path in named_files if not path.exists()] == []
    assert {path for path in kustomization.parent.iterdir() if path.is_file()} <= named_files


def test_each_pod_is_changed_by_the_patches() -> None:
    for resource in (named("Deployment") | named("Job")).values():
        assert [container["name"] for container in pod_of(resource)["containers"]] == ["sluice"]


def test_selectors_find_pods_and_services_their_ports() -> None:
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in named("Deployment").values()]
    for resource in RESOURCES:
        selector: Any = resource.get("spec", {}).get("selector")
        if selector:
            assert [labels for labels in pods if (selector.get("matchLabels") or selector) == labels] != []
    for name, service in named("Service").items():
        component = service["spec"]["selector"]["app.kubernetes.io/component"]
        (container,) = pod_of(named("Deployment")[component])["containers"]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {
            one["name"] for one in container["ports"]
        }, name


def test_what_refers_to_a_name_finds_it() -> None:
    services, text = named("Service"), "\n".join(TEXTS.values())
    for path in paths_of_ingress():
        service = path["backend"]["service"]
        assert service["port"]["name"] in {port["name"] for port in services[service["name"]]["spec"]["ports"]}
    (target,) = named("ScrapeConfig")["sluice"]["spec"]["staticConfigs"][0]["targets"]
    host, port = target.split(":")
    assert host == f"metrics.{named('Secret')['sluice']['metadata']['namespace']}.svc"
    assert int(port) in {one["port"] for one in services["metrics"]["spec"]["ports"]}
    assert named("HorizontalPodAutoscaler")["gateway"]["spec"]["scaleTargetRef"]["name"] in named("Deployment")
    assert set(re.findall(r"claimName: (\w+)", text)) == set(named("PersistentVolumeClaim"))
    assert set(re.findall(r"secretKeyRef: {name: sluice, key: (\w+)}", text)) <= set(
        named("Secret")["sluice"]["stringData"]
    )


def paths_of_ingress() -> list[dict[str, Any]]:
    (rule,) = named("Ingress")["sluice"]["spec"]["rules"]
    paths: list[dict[str, Any]] = rule["http"]["paths"]
    return paths


@pytest.mark.parametrize("path", PATHS)
def test_the_ingress_has_our_rule(path: str) -> None:
    def fits(one: dict[str, Any]) -> bool:
        prefix = one["path"].rstrip("/")
        return path == one["path"] or (one["pathType"] == "Prefix" and path.startswith(f"{prefix}/"))

    best = max((one for one in paths_of_ingress() if fits(one)), key=lambda one: len(one["path"]))
    wanted = "gateway" if re.match(f"/{OF_GATEWAYS}", path) else "web"
    assert best["backend"]["service"]["name"] == wanted


def test_one_beat_alone_sends_tasks() -> None:
    assert SERVICES["beat"].get("deploy") is None
    assert named("Deployment")["beat"]["spec"]["replicas"] == 1
    assert named("Deployment")["beat"]["spec"]["strategy"] == {"type": "Recreate"}


def test_the_same_model_is_brought_and_served() -> None:
    brought = pod_of(named("Job")["models"])["containers"][0]["args"][-1]
    assert f"SLUICE_MODEL={brought}" in TEXTS["deploy/kubernetes/base/sluice.env"]
    assert brought == DEFAULT_MODEL
    assert SERVICES["models"]["command"][-1] == SERVICES["worker"]["environment"]["SLUICE_MODEL"]


def test_the_image_has_all_that_is_installed_and_no_more() -> None:
    taken = set(re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.M))
    assert all((ROOT / name).exists() for name in taken)
    copied = re.findall(r"^COPY (?!--from)([^\n]+) \./$", TEXTS["Dockerfile"], re.M)
    assert {name for line in copied for name in line.split()} <= taken
    assert taken.isdisjoint({"deploy", "tests", "var", ".git"})
