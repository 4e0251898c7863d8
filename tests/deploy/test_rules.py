"""The rules for Prometheus: as they are generated, and about metrics that there are. promtool tests what they do."""

from __future__ import annotations

import runpy
from typing import Any

import pytest
import yaml

from inference.protocol.metrics import TBT, TPOT, TTFT
from tests.deploy.promql import problems
from tests.environment import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
RULES = (FOLDER / "rules" / "sluice.rules.yml").read_text()
ALL: list[dict[str, Any]] = [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]
RECORDED = [rule["record"] for rule in ALL if "record" in rule]
ALERTS = [rule for rule in ALL if "alert" in rule]


def test_they_are_what_the_script_writes() -> None:
    assert runpy.run_path(str(FOLDER / "make_rules.py"))["text"]() == RULES


def name_of(rule: dict[str, Any]) -> str:
    """A rule's name, and the window where there are several of it."""
    return " ".join([rule.get("record") or rule["alert"], rule.get("labels", {}).get("window", "")])


@pytest.mark.parametrize("rule", ALL, ids=name_of)
def test_each_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    assert problems(rule["expr"], recorded=RECORDED) == []


def test_what_is_not_there_is_found() -> None:
    assert problems("rate(sluice_nothing_total[5m])") == ["no metric sluice_nothing_total"]
    assert problems('sluice_queued{key="k"}') == ["sluice_queued has no label key"]
    assert problems("sum by (key) (sluice_queued)") == ["nothing here has the label key"]
    with pytest.raises(ValueError, match="unclosed"):
        problems("sum(")


def test_each_alert_says_how_urgent_it_is_and_what_is_wrong() -> None:
    for alert in ALERTS:
        assert alert["labels"]["severity"] in ("page", "ticket")
        assert alert["annotations"]["summary"].endswith("."), alert["alert"]


def test_each_slo_has_alerts() -> None:
    slos = {alert["labels"].get("slo") for alert in ALERTS}
    assert {"errors", "availability", "ttft", "ttft_median", "tpot_median", "tbt"} <= slos


def test_each_alert_is_tested() -> None:
    tests = "".join(path.read_text() for path in (FOLDER / "tests").glob("*.test.yml"))
    assert [alert["alert"] for alert in ALERTS if alert["alert"] not in tests] == []


def test_each_target_is_a_bound_of_its_histogram() -> None:
    bounds = {f"sluice_{metric.name}": metric.bounds for metric in (TTFT, TPOT, TBT)}
    for slo in runpy.run_path(str(FOLDER / "make_rules.py"))["LATENCIES"]:
        assert float(slo.target) in bounds[slo.metric]


def test_the_example_finds_the_rules() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    assert [path for pattern in config["rule_files"] for path in FOLDER.glob(pattern)]
    assert [job["job_name"] for job in config["scrape_configs"]] == ["sluice"], "which the alert SluiceDown looks for"
