"""Write the dashboard: `python deploy/grafana/make_dashboard.py`. Its rows and panels are laid out here, in order."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).parent / "dashboards" / "sluice.json"

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
MODEL = 'model=~"$model"'
RATE = "[$__rate_interval]"
COLUMNS = 24  # of Grafana's grid

Panel = dict[str, Any]


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
        "templating": {"list": variables()},
        "annotations": {"list": [firing()]},
        "panels": laid_out(rows()),
    }


def variables() -> list[dict[str, Any]]:
    """Return what can be chosen at the top."""
    return [
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


def firing() -> dict[str, Any]:
    """Return the marks of alerts that fire."""
    return {
        "name": "Alerts",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Sluice.*",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
    }


def rows() -> list[tuple[str, list[Panel]]]:
    """Return the panels by row."""
    return [
        ("Objectives", objectives()),
        ("Time to first token", latency("ttft", "TTFT", {"p50": 0.1, "p99": 0.5})),
        ("Time per output token", latency("tpot", "TPOT", {"p50": 0.02})),
        ("Time between tokens", latency("tbt", "TBT", {"p99": 0.1})),
        ("Load", load()),
        ("Devices", devices()),
        ("Errors and safety", troubles()),
        ("Where the latency hides", stages()),
        ("Inside", inside()),
    ]


def objectives() -> list[Panel]:
    """Return the traffic lights: green where a target is met, amber within a tenth of it, red where it is missed."""
    lights = [
        light("TTFT p50 < 100 ms", quantile("ttft", 0.5), "s", 0.1),
        light("TTFT p99 < 500 ms", quantile("ttft", 0.99), "s", 0.5),
        light("TPOT p50 < 20 ms", quantile("tpot", 0.5), "s", 0.02),
        light("TBT p99 < 100 ms", quantile("tbt", 0.99), "s", 0.1),
        light("Bad answers < 0.1 %", share_of_bad("$__range"), "percentunit", 0.001),
    ]
    left = stat(
        "Error budget left, 30 days",
        "sluice:error_budget_left:ratio30d",
        "percentunit",
        [(None, "red"), (0, "orange"), (0.1, "green")],
    )
    burn = series(
        "Burn rate: 1 spends the budget exactly",
        "none",
        [(f"{share_of_bad(window)} / 0.001", f"over {window}") for window in ("5m", "1h", "6h")],
        width=12,
        target=1,
    )
    availability = series(
        "Availability", "percentunit", [(f"1 - {share_of_bad('5m')}", "available")], width=12, target=0.999
    )
    return [*(panel | {"width": 4} for panel in (*lights, left)), burn, availability]


def latency(metric: str, name: str, targets: dict[str, float]) -> list[Panel]:
    """Return how a time is distributed, and its percentiles."""
    buckets = f"sum by (le) (increase(sluice_{metric}_seconds_bucket{{{MODEL}}}{RATE}))"
    spread = {
        "type": "heatmap",
        "title": f"{name}: distribution",
        "width": 12,
        "targets": [query(buckets, "{{le}}") | {"format": "heatmap"}],
        "fieldConfig": {"defaults": {"unit": "short"}, "overrides": []},
        "options": {"calculate": False, "yAxis": {"unit": "s"}, "color": {"scheme": "Oranges", "mode": "scheme"}},
    }
    lines = [(quantile(metric, share, RATE), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)]
    lines += [(f"vector({target:g})", f"target of {name}") for name, target in targets.items()]
    return [spread, series(f"{name}: p50, p95, p99", "s", lines, width=12)]


def load() -> list[Panel]:
    """Return what is going on."""
    return [
        series(
            "Active streams",
            "short",
            [("sluice_active_streams", "together"), ("sluice_gateway_active_streams", "{{gateway}}")],
        ),
        series(
            "Queue by priority",
            "short",
            [(f"sum by (priority) (sluice_queued{{{MODEL}}})", "{{priority}}"), ("max(sluice_queue_limit)", "limit")],
        ),
        series("Requests that workers have", "short", [(f"sluice_claimed{{{MODEL}}}", "{{model}}")]),
        series(
            "Tokens per second, by device",
            "short",
            [
                (f"sluice_worker_tokens_per_second{{{MODEL}}}", "{{worker}} {{device}}"),
                (f"sum(sluice_worker_tokens_per_second{{{MODEL}}})", "together"),
            ],
        ),
        series(
            "Tokens of ended messages per second",
            "short",
            [(f"sum by (kind) (rate(sluice_tokens_total{{{MODEL}}}{RATE}))", "{{kind}}")],
        ),
        series(
            "Messages by how they ended, per second",
            "reqps",
            [(f"sum by (outcome) (rate(sluice_requests_total{RATE}))", "{{outcome}}")],
        ),
    ]


def devices() -> list[Panel]:
    """Return how full they are."""
    memory = f"sluice_worker_memory_used_bytes{{{MODEL}}} / (sluice_worker_memory_bytes{{{MODEL}}} > 0)"
    cache = f"sluice_worker_kv_tokens_used{{{MODEL}}} / (sluice_worker_kv_tokens{{{MODEL}}} > 0)"
    batch = f"sluice_worker_running{{{MODEL}}} / sluice_worker_max_batch{{{MODEL}}}"
    name = "{{worker}} {{device}}"
    return [
        series("Memory", "percentunit", [(memory, name)]),
        series("KV cache", "percentunit", [(cache, name)]),
        series("Batch", "percentunit", [(batch, name)]),
        series("Memory in bytes", "bytes", [(f"sluice_worker_memory_used_bytes{{{MODEL}}}", name)]),
        series(
            "Prompt tokens found in the prefix cache",
            "percentunit",
            [(f"sluice_worker_prefix_hit_ratio{{{MODEL}}}", name)],
        ),
        series(
            "Attempts after the first, per minute",
            "short",
            [(f"60 * sum by (model) (rate(sluice_retries_total{{{MODEL}}}{RATE}))", "{{model}}")],
        ),
    ]


def troubles() -> list[Panel]:
    """Return what goes wrong, by kind."""
    bad = f'sum by (type) (rate(sluice_answers_total{{result="bad"}}{RATE}))'
    failed = f'rate(sluice_requests_total{{outcome=~"oom|worker_lost|timeout|error"}}{RATE})'
    triggers = f"sum by (check, category, action) (rate(sluice_safety_triggers_total{RATE}))"
    return [
        series("Bad answers by type, per second", "reqps", [(bad, "{{type}}")]),
        series(
            "Errors by status, per second",
            "reqps",
            [(f"sum by (status, type) (rate(sluice_errors_total{RATE}))", "{{status}} {{type}}")],
        ),
        series(
            "Out of memory, lost workers, timeouts, per minute",
            "short",
            [
                (
                    f"60 * sum by (outcome) ({failed})",
                    "{{outcome}}",
                )
            ],
        ),
        series("Safety triggers, per minute", "short", [(f"60 * {triggers}", "{{check}} {{category}} ({{action}})")]),
        series(
            "Limits, per second",
            "reqps",
            [(f"sum by (level, limit, mode) (rate(sluice_limited_total{RATE}))", "{{level}} {{limit}} ({{mode}})")],
        ),
        series(
            "Clients: slow ones cut, streams resumed, per minute",
            "short",
            [
                (f"60 * rate(sluice_slow_clients_total{RATE})", "slow"),
                (f"60 * rate(sluice_resumes_total{RATE})", "resumed"),
            ],
        ),
    ]


def stages() -> list[Panel]:
    """Return the mean time of each stage of a request, one upon another."""
    spent, times = (f"sum by (stage) (rate(sluice_stage_seconds_{part}{RATE}))" for part in ("sum", "count"))
    p99 = f"histogram_quantile(0.99, sum by (le, stage) (rate(sluice_stage_seconds_bucket{RATE})))"
    return [
        series("Mean time by stage", "s", [(f"{spent} / {times}", "{{stage}}")], width=12, stacked=True),
        series("p99 by stage", "s", [(p99, "{{stage}}")], width=12),
    ]


def inside() -> list[Panel]:
    """Return what keeps the platform going."""
    lag = f"histogram_quantile(0.99, sum by (le) (rate(sluice_loop_lag_seconds_bucket{RATE})))"
    return [
        series(
            "Reports that wait for the database",
            "short",
            [("sluice_spool_reports", "waiting"), ("sluice_spool_set_aside", "set aside")],
        ),
        series("The oldest of them", "s", [("sluice_spool_oldest_seconds", "waits for")]),
        series("Event logs kept", "short", [("sluice_event_logs", "logs")]),
        series("How late gateways' event loops are, p99", "s", [(lag, "p99")]),
        series("Bytes to clients per second", "Bps", [(f"rate(sluice_sent_bytes_total{RATE})", "bytes")]),
        series("Connections of clients", "short", [("sluice_gateway_open_connections", "{{gateway}}")]),
        series(
            "Processes by version", "short", [("sum by (kind, version) (sluice_build_info)", "{{kind}} {{version}}")]
        ),
        series("Heartbeats per second", "short", [(f"rate(sluice_heartbeats_total{RATE})", "pings")]),
        series(
            "Tokens by which quotas were wrong, per hour",
            "short",
            [("increase(sluice_quota_drift_tokens_total[1h])", "drift")],
        ),
    ]


def quantile(metric: str, share: float, window: str = "[$__range]") -> str:
    """Return the expression of a percentile of a time, of the models chosen."""
    return f"histogram_quantile({share:g}, sum by (le) (rate(sluice_{metric}_seconds_bucket{{{MODEL}}}{window})))"


def share_of_bad(window: str) -> str:
    """Return the expression of the share of answers that were bad."""
    bad = f'sum(rate(sluice_answers_total{{result="bad"}}[{window}])) or vector(0)'
    return f'({bad}) / sum(rate(sluice_answers_total{{result=~"good|bad"}}[{window}]))'


def light(title: str, expression: str, unit: str, target: float) -> Panel:
    """Return a traffic light for what has to be below a target."""
    return stat(title, expression, unit, [(None, "green"), (target * 0.9, "orange"), (target, "red")])


def stat(title: str, expression: str, unit: str, steps: list[tuple[float | None, str]]) -> Panel:
    """Return one number on its colour."""
    thresholds = {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}
    return {
        "type": "stat",
        "title": title,
        "height": 4,
        "targets": [query(expression, "") | {"instant": True}],
        "fieldConfig": {"defaults": {"unit": unit, "thresholds": thresholds, "noValue": "none"}, "overrides": []},
        "options": {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}},
    }


def series(
    title: str,
    unit: str,
    lines: list[tuple[str, str]],
    *,
    width: int = 8,
    target: float | None = None,
    stacked: bool = False,
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
        "targets": [query(expression, legend) for expression, legend in lines],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def query(expression: str, legend: str) -> dict[str, Any]:
    """Return what a panel asks for."""
    return {"datasource": SOURCE, "expr": expression, "legendFormat": legend}


def laid_out(rows: list[tuple[str, list[Panel]]]) -> list[Panel]:
    """Place the panels on the grid, each row under its title."""
    ids, y = count(1), 0
    placed: list[Panel] = []
    for title, panels in rows:
        placed.append(
            {
                "id": next(ids),
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }
        )
        x, y, height = 0, y + 1, 0
        for panel in panels:
            width, high = panel.pop("width"), panel.pop("height", 8)
            if x + width > COLUMNS:
                x, y = 0, y + height
            placed.append(
                {"id": next(ids), "datasource": SOURCE, "gridPos": {"x": x, "y": y, "w": width, "h": high}} | panel
            )
            for letter, target in zip("ABCDEFGH", panel["targets"], strict=False):
                target["refId"] = letter
            x, height = x + width, high
        y += height
    return placed


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(text())
