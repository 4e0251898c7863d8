"""The manifests in deploy/: what they run, and what they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.environment import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "sluice" in service["image"]}
ONCE = {"migrate", "models"}  # run before the others, and end

TEXTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (
        ROOT / "Dockerfile",
        DEPLOY / "env.example",
        *DEPLOY.glob("compose*.yaml"),
        *(path for path in sorted(KUBERNETES.rglob("*")) if path.is_file()),
    )
}
RESOURCES: list[dict[str, Any]] = [
    resource
    for path in sorted(KUBERNETES.rglob("*.yaml"))
    for resource in yaml.safe_load_all(path.read_text())
    if path.name not in ("kustomization.yaml", "pod.yaml") and "overlays" not in path.parts
]


def named(kind: str) -> dict[str, dict[str, Any]]:
    """Return the resources of a kind, by their names."""
    return {one["metadata"]["name"]: one for one in RESOURCES if one["kind"] == kind}


@dataclass(frozen=True)
class Run:
    """A container of ours: its command, and what looks whether it is well."""

    where: str
    command: list[str]
    probes: list[list[str]] = field(default_factory=list)  # commands
    paths: list[str] = field(default_factory=list)  # of probes by HTTP
    grace_s: float = 0.0
    patience_s: float = 0.0  # before it hears of its stop


def pod_of(resource: dict[str, Any]) -> dict[str, Any]:
    """Return the pod that a Deployment or a Job makes."""
    spec: dict[str, Any] = resource["spec"]["template"]["spec"]
    return spec


def runs() -> list[Run]:
    """Return all containers of ours."""
    return [*_of_compose(), *_of_kubernetes()]


def _of_compose() -> Iterator[Run]:
    for name, service in OURS.items():
        test: list[str] = service.get("healthcheck", {}).get("test", ["CMD"])
        grace = float(service.get("stop_grace_period", "0s").removesuffix("s"))
        yield Run(f"compose/{name}", service["command"], [test[1:]] if test[1:] else [], grace_s=grace)


def _of_kubernetes() -> Iterator[Run]:
    for name, resource in (named("Deployment") | named("Job")).items():
        pod = pod_of(resource)
        (container,) = pod["containers"]
        probes = [probe for key, probe in container.items() if key.endswith("Probe")]
        before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
        yield Run(
            f"kubernetes/{name}",
            container["args"],
            [probe["exec"]["command"] for probe in probes if "exec" in probe],
            [probe["httpGet"]["path"] for probe in probes if "httpGet" in probe],
            float(pod.get("terminationGracePeriodSeconds", 0)),
            float(before[1]),
        )


def files_of(kustomization: Path) -> set[Path]:
    """Return the files that a kustomization names, itself among them."""
    body = yaml.safe_load(kustomization.read_text())
    names = [*body.get("resources", []), *(patch["path"] for patch in body.get("patches", []))]
    names += [name for generator in body.get("configMapGenerator", []) for name in generator["envs"]]
    return {kustomization, *((kustomization.parent / name).resolve() for name in [*names, *body.get("components", [])])}
