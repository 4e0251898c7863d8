"""Write the dashboard: `python deploy/grafana/make_dashboard.py`. `ROWS` is what it shows, in order.

In expressions `{M}` stands for the models chosen, `[R]` for a window that fits the zoom.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parent / "dashboards" / "sluice.json"

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
SHORT = {"{M}": '{model=~"$model"}', "[R]": "[$__rate_interval]"}
HEAT = {"scheme": "Oranges", "mode": "scheme", "fill": "dark-orange", "exponent": 0.5, "steps": 64, "reverse": False}
COLUMNS = 24  # of Grafana's grid

Panel = dict[str, Any]
Lines = tuple[str, str]  # an expression, and the legend of what it gives


def query(expression: str, legend: str = "") -> dict[str, Any]:
    """Return what a panel asks for."""
    for short, long in SHORT.items():
        expression = expression.replace(short, long)
    return {"datasource": SOURCE, "expr": expression, "legendFormat": legend}


def stat(title: str, unit: str, expression: str, *steps: tuple[float | None, str]) -> Panel:
    """Return one number on its colour."""
    thresholds = {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}
    return {
        "type": "stat",
        "title": title,
        "width": 4,
        "height": 4,
        "targets": [query(expression) | {"instant": True}],
        "fieldConfig": {"defaults": {"unit": unit, "thresholds": thresholds, "noValue": "none"}, "overrides": []},
        "options": {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}},
    }


def light(title: str, unit: str, expression: str, target: float) -> Panel:
    """Return a traffic light: green where a target is met, amber within a tenth of it, red where it is missed."""
    return stat(title, unit, expression, (None, "green"), (target * 0.9, "orange"), (target, "red"))


def series(
    title: str, unit: str, *lines: Lines, width: int = 8, target: float | None = None, stacked: bool = False
) -> Panel:
    """Return lines over time; `target` is drawn across."""
    custom: dict[str, Any] = {"fillOpacity": 60 if stacked else 5, "showPoints": "never"}
    defaults: dict[str, Any] = {"unit": unit, "custom": custom}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    if target is not None:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        steps = [{"value": None, "color": "transparent"}, {"value": target, "color": "red"}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "type": "timeseries",
        "title": title,
        "width": width,
        "targets": [query(*line) for line in lines],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def heatmap(title: str, buckets: str) -> Panel:
    """Return how a time is distributed."""
    return {
        "type": "heatmap",
        "title": title,
        "width": 12,
        "targets": [query(buckets, "{{le}}") | {"format": "heatmap"}],
        "fieldConfig": {"defaults": {"unit": "short"}, "overrides": []},
        "options": {"calculate": False, "yAxis": {"unit": "s"}, "color": HEAT},
    }


def quantile(metric: str, share: float, window: str = "[$__range]") -> str:
    """Return the expression of a percentile of a time, of the models chosen."""
    return f"histogram_quantile({share:g}, sum by (le) (rate(sluice_{metric}_seconds_bucket{{M}}{window})))"


def share_of_bad(window: str) -> str:
    """Return the expression of the share of answers that were bad."""
    bad = f'sum(rate(sluice_answers_total{{result="bad"}}[{window}])) or vector(0)'
    return f'({bad}) / sum(rate(sluice_answers_total{{result=~"good|bad"}}[{window}]))'


def latency(metric: str, **targets: float) -> list[Panel]:
    """Return how a time is distributed, and its percentiles."""
    name = metric.upper()
    lines = [(quantile(metric, share, "[R]"), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)]
    lines += [(f"vector({target:g})", f"target of {share}") for share, target in targets.items()]
    return [
        heatmap(f"{name}: distribution", f"sum by (le) (increase(sluice_{metric}_seconds_bucket{{M}}[R]))"),
        series(f"{name}: p50, p95, p99", "s", *lines, width=12),
    ]


def stage(part: str) -> str:
    """Return the expression of a part of the histogram of stages."""
    return f"sum by (stage) (rate(sluice_stage_seconds_{part}[R]))"


BURN = "Burn rate: 1 spends the budget exactly"
DEVICE = "{{worker}} {{device}}"
FAILED = 'sluice_requests_total{outcome=~"oom|worker_lost|timeout|error"}'

# Of counters that are there before anything is counted, `> 0` leaves out what has not happened.
ROWS: dict[str, list[Panel]] = {
    "Objectives": [
        light("TTFT p50 < 100 ms", "s", quantile("ttft", 0.5), 0.1),
        light("TTFT p99 < 500 ms", "s", quantile("ttft", 0.99), 0.5),
        light("TPOT p50 < 20 ms", "s", quantile("tpot", 0.5), 0.02),
        light("TBT p99 < 100 ms", "s", quantile("tbt", 0.99), 0.1),
        light("Bad answers < 0.1 %", "percentunit", share_of_bad("$__range"), 0.001),
        stat("Error budget left, 30 days", "percentunit", "sluice:error_budget_left:ratio30d",
             (None, "red"), (0, "orange"), (0.1, "green")),
        series(BURN, "none", *((f"{share_of_bad(window)} / 0.001", f"over {window}") for window in ("5m", "1h", "6h")),
               width=12, target=1),
        series("Availability", "percentunit", (f"1 - {share_of_bad('5m')}", "available"), width=12, target=0.999),
    ],
    "Time to first token": latency("ttft", p50=0.1, p99=0.5),
    "Time per output token": latency("tpot", p50=0.02),
    "Time between tokens": latency("tbt", p99=0.1),
    "Load": [
        series("Active streams", "short",
               ("sluice_active_streams", "together"), ("sluice_gateway_active_streams", "{{gateway}}")),
        series("Queue by priority", "short",
               ("sum by (priority) (sluice_queued{M})", "{{priority}}"), ("max(sluice_queue_limit)", "limit")),
        series("Requests that workers have", "short", ("sluice_claimed{M}", "{{model}}")),
        series("Tokens per second, by device", "short",
               ("sluice_worker_tokens_per_second{M}", DEVICE), ("sum(sluice_worker_tokens_per_second{M})", "together")),
        series("Tokens of ended messages per second", "short",
               ("sum by (kind) (rate(sluice_tokens_total{M}[R]))", "{{kind}}")),
        series("Messages by how they ended, per second", "reqps",
               ("sum by (outcome) (rate(sluice_requests_total[R]))", "{{outcome}}")),
    ],
    "Devices": [
        series("Memory", "percentunit",
               ("sluice_worker_memory_used_bytes{M} / (sluice_worker_memory_bytes{M} > 0)", DEVICE)),
        series("KV cache", "percentunit",
               ("sluice_worker_kv_tokens_used{M} / (sluice_worker_kv_tokens{M} > 0)", DEVICE)),
        series("Batch", "percentunit", ("sluice_worker_running{M} / sluice_worker_max_batch{M}", DEVICE)),
        series("Memory in bytes", "bytes", ("sluice_worker_memory_used_bytes{M}", DEVICE)),
        series("Prompt tokens found in the prefix cache", "percentunit", ("sluice_worker_prefix_hit_ratio{M}", DEVICE)),
        series("Attempts after the first, per minute", "short",
               ("60 * sum by (model) (rate(sluice_retries_total{M}[R]))", "{{model}}")),
    ],
    "Errors and safety": [
        series("Bad answers by type, per second", "reqps",
               ('sum by (type) (rate(sluice_answers_total{result="bad"}[R]))', "{{type}}")),
        series("Errors by status, per second", "reqps",
               ("sum by (status, type) (rate(sluice_errors_total[R])) > 0", "{{status}} {{type}}")),
        series("Out of memory, lost workers, timeouts, per minute", "short",
               (f"60 * sum by (outcome) (rate({FAILED}[R]))", "{{outcome}}")),
        series("Safety triggers, per minute", "short",
               ("60 * sum by (check, category, action) (rate(sluice_safety_triggers_total[R])) > 0",
                "{{check}} {{category}} ({{action}})")),
        series("Limits, per second", "reqps",
               ("sum by (level, limit, mode) (rate(sluice_limited_total[R])) > 0", "{{level}} {{limit}} ({{mode}})")),
        series("Clients: slow ones cut, streams resumed, per minute", "short",
               ("60 * rate(sluice_slow_clients_total[R])", "slow"), ("60 * rate(sluice_resumes_total[R])", "resumed")),
    ],
    "Where the latency hides": [
        series("Mean time by stage", "s", (f"{stage('sum')} / {stage('count')}", "{{stage}}"), width=12, stacked=True),
        series("p99 by stage", "s",
               ("histogram_quantile(0.99, sum by (le, stage) (rate(sluice_stage_seconds_bucket[R])))", "{{stage}}"),
               width=12),
    ],
    "Inside": [
        series("Reports that wait for the database", "short",
               ("sluice_spool_reports", "waiting"), ("sluice_spool_set_aside", "set aside")),
        series("The oldest of them", "s", ("sluice_spool_oldest_seconds", "waits for")),
        series("Event logs kept", "short", ("sluice_event_logs", "logs")),
        series("How late gateways' event loops are, p99", "s",
               ("histogram_quantile(0.99, sum by (le) (rate(sluice_loop_lag_seconds_bucket[R])))", "p99")),
        series("Bytes to clients per second", "Bps", ("rate(sluice_sent_bytes_total[R])", "bytes")),
        series("Connections of clients", "short", ("sluice_gateway_open_connections", "{{gateway}}")),
        series("Processes by version", "short",
               ("sum by (kind, version) (sluice_build_info)", "{{kind}} {{version}}")),
        series("Heartbeats per second", "short", ("rate(sluice_heartbeats_total[R])", "pings")),
        series("Tokens by which quotas were wrong, per hour", "short",
               ("increase(sluice_quota_drift_tokens_total[1h])", "drift")),
    ],
}  # fmt: skip

# What can be chosen at the top, and the marks of alerts that fire.
VARIABLES = [
    {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
    {
        "name": "model",
        "label": "Model",
        "type": "query",
        "datasource": SOURCE,
        "query": "label_values(sluice_queued, model)",
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    },
]
FIRING = {
    "name": "Alerts",
    "datasource": SOURCE,
    "enable": True,
    "iconColor": "red",
    "expr": 'ALERTS{alertname=~"Sluice.*",alertstate="firing"}',
    "titleFormat": "{{alertname}}",
}


def dashboard() -> dict[str, Any]:
    """Return the whole dashboard."""
    return {
        "uid": "sluice",
        "title": "Sluice",
        "description": "Streams, objectives and devices of the platform; the alerts are in deploy/prometheus.",
        "tags": ["sluice"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": VARIABLES},
        "annotations": {"list": [FIRING]},
        "panels": laid_out(ROWS),
    }


def laid_out(rows: dict[str, list[Panel]]) -> list[Panel]:
    """Place the panels on the grid, each row under its title."""
    ids, y = count(1), 0
    placed: list[Panel] = []
    for title, panels in rows.items():
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        row = {"type": "row", "title": title, "collapsed": False, "panels": []}
        placed.append({"id": next(ids), **row, "gridPos": place})
        x, y, height = 0, y + 1, 0
        for panel in panels:
            shown = dict(panel)
            width, high = shown.pop("width"), shown.pop("height", 8)
            if x + width > COLUMNS:
                x, y = 0, y + height
            place = {"x": x, "y": y, "w": width, "h": high}
            shown["targets"] = [target | {"refId": "ABCDEFGH"[i]} for i, target in enumerate(panel["targets"])]
            placed.append({"id": next(ids), "datasource": SOURCE, "gridPos": place, **shown})
            x, height = x + width, high
        y += height
    return placed


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(text())
