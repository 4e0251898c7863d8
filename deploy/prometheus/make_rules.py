"""Write the rules: `python deploy/prometheus/make_rules.py`. What an SLO is, is said once here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).parent / "rules" / "sluice.rules.yml"

# Of the SRE workbook: how fast a 30 day budget burns, over a long window and a short one that shows that it still does;
# the first spends 2 % of it in an hour, the next 5 % in six hours, the last 10 % in three days.
BURNS = ((14.4, "1h", "5m", "page"), (6.0, "6h", "30m", "page"), (1.0, "3d", "6h", "ticket"))
WINDOWS = ("5m", "30m", "1h", "6h", "3d")
ERROR_BUDGET = 0.001
COUNTED = ("1h", "6h")  # long windows of alerts that page
LEAST_BAD = 5  # answers in these that were bad, or slow: fewer are not worth waking anybody


@dataclass(frozen=True)
class Latency:
    """An SLO of the form: of all times, no more than a share is above the target. `alert` is for its alerts' names."""

    name: str
    alert: str
    metric: str
    target: str  # in seconds, a bound of the histogram
    budget: float  # the share: 0.5 for a median, 0.01 for a p99
    about: str

    @property
    def windows(self) -> tuple[str, ...]:
        return ("5m", "1h") if self.is_median else WINDOWS

    @property
    def is_median(self) -> bool:
        return self.budget == 0.5


LATENCIES = (
    Latency("ttft", "SluiceTtft", "sluice_ttft_seconds", "0.5", 0.01, "TTFT p99 < 500 ms"),
    Latency("ttft_median", "SluiceTtftMedian", "sluice_ttft_seconds", "0.1", 0.5, "TTFT p50 < 100 ms"),
    Latency("tpot_median", "SluiceTpot", "sluice_tpot_seconds", "0.02", 0.5, "TPOT p50 < 20 ms"),
    Latency("tbt", "SluiceTbt", "sluice_tbt_seconds", "0.1", 0.01, "TBT p99 < 100 ms"),
)


def text() -> str:
    """Return the whole file."""
    head = "# Written by deploy/prometheus/make_rules.py: change that, not this.\ngroups:\n"
    return head + "\n".join([*recorded(), *slo_alerts(), *operations()]) + "\n"


def recorded() -> Iterator[str]:
    """Give the recording rules: what share was bad, by window, and percentiles for dashboards.

    The alerts on them follow in the same group: the rules of one are evaluated in their order.
    """
    yield group("sluice_slo")
    bad, counted = 'sluice_answers_total{result="bad"}', 'sluice_answers_total{result=~"good|bad"}'
    for window in (*WINDOWS, "30d"):
        share = f"(sum(rate({bad}[{window}])) or vector(0)) / sum(rate({counted}[{window}]))"
        yield record(f"sluice:answers_bad:ratio_rate{window}", share)
    for window in COUNTED:
        yield record(f"sluice:answers_bad:increase{window}", f"sum(increase({bad}[{window}])) or vector(0)")
    left = f"1 - sluice:answers_bad:ratio_rate30d / {ERROR_BUDGET}"
    yield record("sluice:error_budget_left:ratio30d", left)
    for slo in LATENCIES:
        for window in slo.windows:
            in_time = f'sum by (model) (rate({slo.metric}_bucket{{le="{slo.target}"}}[{window}]))'
            total = f"sum by (model) (rate({slo.metric}_count[{window}]))"
            yield record(f"sluice:{slo.name}_slow:ratio_rate{window}", f"1 - {in_time} / {total}")
            if window in COUNTED:
                increases = f"{total} - {in_time}".replace("rate(", "increase(")
                yield record(f"sluice:{slo.name}_slow:increase{window}", increases)
    for metric in ("ttft", "tpot", "tbt"):
        for percent in (50, 95, 99):
            buckets = f"sum by (model, le) (rate(sluice_{metric}_seconds_bucket[5m]))"
            yield record(f"sluice:{metric}_seconds:p{percent}_5m", f"histogram_quantile({percent / 100:g}, {buckets})")


def slo_alerts() -> Iterator[str]:
    """Give an alert for each speed at which an SLO's budget burns."""
    for factor, long, short, severity in BURNS:
        ratio = "sluice:answers_bad:ratio_rate"
        limit = f"{factor:g} * {ERROR_BUDGET}"
        enough = f" and sluice:answers_bad:increase{long} >= {LEAST_BAD}" if long in COUNTED else ""
        yield alert(
            "SluiceErrorBudgetBurn",
            f"{ratio}{long} > {limit} and {ratio}{short} > {limit}{enough}",
            severity,
            "Answers fail {{ $value | humanizePercentage }} of the time: the error budget of 30 days burns "
            f"{factor:g} times too fast.",
            labels={"slo": "errors", "window": long},
        )
    yield alert(
        "SluiceErrorBudgetSpent",
        "sluice:error_budget_left:ratio30d < 0",
        "ticket",
        "More than 0.1 % of the answers of 30 days were bad: availability is below 99.9 %.",
        wait="10m",
        labels={"slo": "availability"},
    )
    for slo in LATENCIES:
        yield from latency_alerts(slo)


def latency_alerts(slo: Latency) -> Iterator[str]:
    """Give the alerts of a latency; of one whose budget is a half, no burn is faster than twice too fast."""
    for factor, long, short, severity in BURNS:
        limit = factor * slo.budget
        if limit >= 1:
            continue
        ratio = f"sluice:{slo.name}_slow:ratio_rate"
        if slo.is_median:
            short, long = slo.windows
        enough = f" and sluice:{slo.name}_slow:increase{long} >= {LEAST_BAD}" if long in COUNTED else ""
        yield alert(
            f"{slo.alert}Slow",
            f"{ratio}{long} > {limit:g} and {ratio}{short} > {limit:g}{enough}",
            "ticket" if slo.is_median else severity,
            "{{ $value | humanizePercentage }} of {{ $labels.model }} is slower than "
            f"{slo.target} s ({slo.about}).",
            labels={"slo": slo.name, "window": long},
        )


def operations() -> Iterator[str]:
    """Give the alerts on what breaks, or soon will."""
    failed = 'sluice_safety_triggers_total{category="check_failed"}'  # which is not there before the first
    yield group("sluice_operations")
    yield alert(
        "SluiceDown",
        'up{job="sluice"} == 0 or absent(up{job="sluice"})',
        "page",
        "No gateway answers /metrics.",
        wait="2m",
    )
    yield alert("SluiceRedisAway", "sluice_redis_up == 0", "page", "The gateways cannot reach Redis.", wait="1m")
    yield alert(
        "SluiceNoWorker",
        "absent(sluice_worker_max_batch) and on() (sluice_redis_up == 1)",
        "page",
        "No worker runs: nothing is answered.",
        wait="1m",
    )
    yield alert(
        "SluiceModelWithoutWorker",
        "sum by (model) (sluice_queued) > 0 unless on (model) sum by (model) (sluice_worker_max_batch)",
        "page",
        "Requests wait for {{ $labels.model }}, which no worker serves.",
        wait="1m",
    )
    yield alert(
        "SluiceQueueFilling",
        "sum by (model) (sluice_queued) > on () group_left () 0.8 * max(sluice_queue_limit)",
        "ticket",
        "{{ $value }} requests wait for {{ $labels.model }}: the queue is nearly full.",
        wait="2m",
    )
    yield alert(
        "SluiceQueueFull",
        'sum(rate(sluice_errors_total{status="529"}[5m])) > 0',
        "page",
        "Requests are refused with 529: the queue, the event logs or Redis are full.",
        wait="2m",
    )
    yield alert(
        "SluiceEventLogsFull",
        "sluice_event_logs_full == 1",
        "page",
        "Running messages alone pass SLUICE_EVENT_LOG_MAX_MB: new requests get 529.",
        wait="1m",
    )
    yield alert(
        "SluiceSpoolGrowing",
        "sluice_spool_oldest_seconds > 60 and deriv(sluice_spool_reports[10m]) > 0",
        "page",
        "Reports wait {{ $value | humanizeDuration }} for the database, and there are ever more: "
        "look at Celery and at the database.",
        wait="5m",
    )
    yield alert(
        "SluiceReportsSetAside",
        "delta(sluice_spool_set_aside[1h]) > 0",
        "ticket",
        "{{ $value }} reports could not be made into records, and were set aside.",
    )
    yield alert(
        "SluiceSafetyChecksFailing",
        f"sum by (check) (increase({failed}[10m])) > 0 or sum by (check) ({failed} unless {failed} offset 10m) > 0",
        "page",
        "The safety check {{ $labels.check }} cannot run: answers that it guards are ended.",
    )
    yield alert(
        "SluiceOutOfMemory",
        'increase(sluice_requests_total{outcome="oom"}[15m]) > 0',
        "ticket",
        "{{ $value }} messages ended since a device had no memory for them.",
    )
    yield alert(
        "SluiceWorkersLost",
        "sum by (model) (increase(sluice_retries_total[15m])) > 5",
        "ticket",
        "{{ $value }} messages of {{ $labels.model }} had to be begun again: workers die or hang.",
    )
    yield alert(
        "SluiceKvCacheFull",
        "sluice_worker_kv_tokens_used / (sluice_worker_kv_tokens > 0) > 0.95",
        "ticket",
        "The KV cache of {{ $labels.worker }} has been full for a quarter of an hour.",
        wait="15m",
    )
    yield alert(
        "SluiceGatewayHeldUp",
        "histogram_quantile(0.99, sum by (le) (rate(sluice_loop_lag_seconds_bucket[5m]))) > 0.1",
        "ticket",
        "Gateways are {{ $value | humanizeDuration }} late with what is due: streams stutter.",
        wait="10m",
    )
    yield alert(
        "SluiceSlowClients",
        "sum(rate(sluice_slow_clients_total[15m])) > 0.1",
        "ticket",
        "Many clients do not read their streams, and are cut off.",
        wait="15m",
    )


def group(name: str) -> str:
    """Return the head of a group."""
    return f"  - name: {name}\n    rules:"


def record(name: str, expression: str) -> str:
    """Return a recording rule."""
    return f"      - record: {name}\n        expr: {quoted(expression)}"


def alert(
    name: str, expression: str, severity: str, summary: str, *, wait: str = "", labels: dict[str, str] | None = None
) -> str:
    """Return an alert."""
    lines = [f"      - alert: {name}", f"        expr: {quoted(expression)}"]
    lines += [f"        for: {wait}"] if wait else []
    lines += ["        labels:"]
    lines += [f"          {key}: {value}" for key, value in {"severity": severity, **(labels or {})}.items()]
    return "\n".join([*lines, "        annotations:", f"          summary: {quoted(summary)}"])


def quoted(words: str) -> str:
    """Return a YAML string."""
    return "'" + words.replace("'", "''") + "'"


if __name__ == "__main__":
    RULES.write_text(text())
