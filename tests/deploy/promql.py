"""What an expression of PromQL asks for."""

from __future__ import annotations

from collections.abc import Iterable

import promql_parser as promql

from tests.deploy.exposition import series

OF_PROMETHEUS = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate", "severity", "slo"}}


def problems(expression: str, *, recorded: Iterable[str] = ()) -> list[str]:
    """Return what in an expression is not there: metrics, labels; raise `ValueError` on nonsense."""
    known = series() | OF_PROMETHEUS
    found: list[str] = []

    def look(node: promql.Expr) -> bool:
        if isinstance(node, promql.VectorSelector):
            name = node.name or ""
            if name in known:
                labels = {matcher.name for matcher in node.matchers.matchers}
                found.extend(f"{name} has no label {label}" for label in labels - known[name])
            elif name not in recorded:
                found.append(f"no metric {name}")
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            names = set().union(*(known.get(name, set()) for name in selected(node)))
            found.extend(f"nothing here has the label {label}" for label in set(node.modifier.labels) - names)
        return True

    promql.walk(promql.parse(expression), look)
    return found


def selected(expression: promql.Expr) -> set[str]:
    """Return the names of the metrics in an expression."""
    names: set[str] = set()

    def look(node: promql.Expr) -> bool:
        if isinstance(node, promql.VectorSelector) and node.name:
            names.add(node.name)
        return True

    promql.walk(expression, look)
    return names
