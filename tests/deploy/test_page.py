"""docs/metrics.md names every metric, alert and span attribute that there is, and no other."""

from __future__ import annotations

import inspect
import re

import pytest

from inference import traces as of_worker
from streaming import traces as of_gateway
from tests.deploy.exposition import Exposed, exposed
from tests.deploy.test_rules import ALERTS
from tests.environment import ROOT

PAGE = (ROOT / "docs" / "metrics.md").read_text()


@pytest.mark.parametrize("metric", exposed(), ids=lambda metric: metric.name)
def test_every_metric_is_in_the_table(metric: Exposed) -> None:
    assert metric.row in PAGE.splitlines()


def test_the_table_has_no_other_metrics() -> None:
    assert set(re.findall(r"^\| `(sluice_\w+)`", PAGE, re.M)) == {metric.name for metric in exposed()}


def test_no_metric_is_of_a_key_or_an_organisation() -> None:
    assert not {label for metric in exposed() for label in metric.labels} & {"key", "organization", "message"}


def test_names_are_as_prometheus_would_have_them() -> None:
    for metric in exposed():
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.kind != "histogram" or metric.name.endswith("_seconds"), metric.name


def test_every_alert_is_told_of() -> None:
    assert set(re.findall(r"`(Sluice\w+)`", PAGE)) == {alert["alert"] for alert in ALERTS}


def test_every_attribute_is_told_of() -> None:
    source = inspect.getsource(of_gateway) + inspect.getsource(of_worker)
    names = set(re.findall(r'"(gen_ai\.[\w.]+)"', source))
    assert len(names) > 10
    for name in names:
        family = re.sub(r"^(gen_ai\.request)\..*", r"\1.*", name)
        assert f"`{family}`" in PAGE, name
