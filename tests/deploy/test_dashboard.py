"""The dashboard for Grafana: as it is generated, and about metrics that there are."""

from __future__ import annotations

import json
import re
import runpy
from typing import Any

import pytest
import yaml

from tests.deploy.promql import problems
from tests.deploy.test_rules import RECORDED
from tests.environment import ROOT

FOLDER = ROOT / "deploy" / "grafana"
TEXT = (FOLDER / "dashboards" / "sluice.json").read_text()
DASHBOARD: dict[str, Any] = json.loads(TEXT)
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SPANS = {"$__rate_interval": "5m", "$__range": "1h"}


def test_it_is_what_the_script_writes() -> None:
    assert runpy.run_path(str(FOLDER / "make_dashboard.py"))["text"]() == TEXT


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        expression = re.sub(r"\$__\w+", lambda found: SPANS[found[0]], target["expr"])
        assert problems(expression, recorded=RECORDED) == []
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_each_panel_has_a_unit(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]


def test_each_panel_has_a_place_of_its_own() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in DASHBOARD["panels"]):
        fields = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert max(x for x, _ in fields) < 24
        assert not fields & taken
        taken |= fields


def test_the_data_source_and_the_model_can_be_chosen() -> None:
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "model"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("provisioning/*/*.yml")), ids=lambda path: path.parent.name)
def test_it_is_provisioned(path: Any) -> None:
    assert yaml.safe_load(path.read_text())["apiVersion"] == 1
