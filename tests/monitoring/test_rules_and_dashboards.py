"""Alerts fire when they are to, and not else; dashboards are as Grafana's schema has them; both name metrics
that are there, and a page says of each alert what it means."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_server_page import METRIC
from tests.monitoring.cases import CASES
from tests.support.pages import PAGES

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
RULES = CONF / "prometheus"
DASHBOARDS = sorted((CONF / "grafana" / "dashboards").glob("*.json"))
NAME = re.compile(r"\b(?:herdpy|process|up)(?:[_:][\w:]+|\b)(?=\{|\[|\s|\)|$)")
OF_A_PROCESS = {
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
}


def rules(name: str) -> list[dict[str, Any]]:
    """The rules of a file."""
    groups = yaml.safe_load((RULES / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in rules("alerts.yml")}


def queries(path: Path) -> list[str]:
    """The expressions of a dashboard, as Grafana sends them to Prometheus."""
    panels = json.loads(path.read_text())["panels"]
    texts = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [text.replace("$instance", ".*").replace("$__rate_interval", "1m") for text in texts]


def known() -> set[str]:
    """Names of series that are there: of metrics, as the server's page has them, and of recorded rules."""
    names = {"up", *OF_A_PROCESS, *(rule["record"] for rule in rules("rules.yml"))}
    for name, _labels, kind, _text in METRIC.findall((ROOT / "docs" / "server.md").read_text()):
        names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return names


def unknown(expressions: list[str]) -> set[str]:
    """What they name that is not there."""
    named = {name for one in expressions for name in NAME.findall(re.sub(r'"[^"]*"', '""', one))}
    return named - known()


def test_every_metric_in_rules_and_dashboards_is_there() -> None:
    for path in DASHBOARDS:
        assert unknown(queries(path)) == set(), path
    assert unknown([rule["expr"] for rule in (*rules("alerts.yml"), *rules("rules.yml"))]) == set()
    assert unknown(['sum(herdpy_nothing{a="herdpy_x"}) / up']) == {"herdpy_nothing"}


def promtool(*arguments: object) -> None:
    """Run it; fails with what it says."""
    ran = subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_promtool_takes_the_files() -> None:
    promtool("check", "config", RULES / "prometheus.yml")
    promtool("check", "rules", RULES / "alerts.yml", RULES / "rules.yml")


def state(alert: str, series: dict[str, str], minutes: int, *, fires: bool) -> dict[str, Any]:
    """A test of promtool: whether the alert, and it alone, fires."""
    firing = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) > 0'
    others = f'count(ALERTS{{alertname!="{alert}", alertstate="firing"}}) > 0'
    at = f"{minutes}m"
    return {
        "name": f"{alert} {'fires' if fires else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"{firing} and on () vector(1) * 0 + 1 or vector(0)"
                if False
                else f"({firing}) * 0 + 1",
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
            },
            {"expr": f"({others}) * 0 + 1", "eval_time": at, "exp_samples": []},
        ],
    }


def test_every_alert_has_its_cases() -> None:
    assert set(CASES) == set(ALERTS)


def test_alerts_fire_when_they_are_to_and_alone(tmp_path: Path) -> None:
    tests = []
    for alert, case in CASES.items():
        tests.append(state(alert, case.fires, case.minutes, fires=True))
        tests.append(state(alert, case.quiet, case.minutes, fires=False))
        for text in ALERTS[alert]["annotations"].values():
            assert "{{" not in text or "$labels." in text or "$value" in text
    file = tmp_path / "alerts.yml"
    names = [str(RULES / name) for name in ("rules.yml", "alerts.yml")]
    file.write_text(yaml.safe_dump({"rule_files": names, "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)
    # A test that cannot fail is none: with the cases exchanged it does.
    wrong = [state("HerdPyNotReady", CASES["HerdPyNotReady"].quiet, 25, fires=True)]
    file.write_text(yaml.safe_dump({"rule_files": names, "evaluation_interval": "1m", "tests": wrong}))
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", file)


def test_every_alert_is_explained_where_it_says() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    for name, rule in ALERTS.items():
        assert f"### {name}\n" in page, name
        assert rule["annotations"]["runbook_url"].endswith(f"docs/monitoring.md#{name.lower()}")
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    sections = re.findall(r"^### (HerdPy\w+)$", page, re.MULTILINE)
    assert sections == list(ALERTS)
    assert ROOT / "docs" / "monitoring.md" in PAGES


def test_dashboards_are_as_the_tool_writes_them() -> None:
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "tools" / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules["dashboards"] = tool
    try:
        spec.loader.exec_module(tool)
    finally:
        del sys.modules["dashboards"]
    assert {path.stem: path.read_text() for path in DASHBOARDS} == {
        name: tool.text(name) for name in tool.DASHBOARDS
    }


PLAIN = (str, int, bool, float)


def misfits(read: Any, given: Any, where: str) -> list[str]:
    """Where what Grafana's classes have read lacks what was given, or has another type than they say."""
    if isinstance(given, list):
        if not isinstance(read, list) or len(read) != len(given):
            return [f"{where} is {read!r}"]
        return [one for at, below in enumerate(given) for one in misfits(read[at], below, f"{where}[{at}]")]
    if not isinstance(given, dict):
        return [] if read == given else [f"{where} is {read!r}, not {given!r}"]
    if read is None:
        return [f"{where} is not read"]
    found = [] if isinstance(read, dict) else mistyped(read, where)
    parts = read if isinstance(read, dict) else read.to_json()
    for key, below in given.items():
        if key in parts:
            found += misfits(parts[key], below, f"{where}.{key}")
        elif below is not None:
            found.append(f"{where}.{key} is not in the schema")
    return found


def mistyped(read: Any, where: str) -> list[str]:
    """Texts, numbers and truth values of an object that are of another type than its class says."""
    found = []
    for name, hint in typing.get_type_hints(type(read), vars(sys.modules[type(read).__module__])).items():
        allowed = set(typing.get_args(hint)) if typing.get_origin(hint) is typing.Union else {hint}
        value = getattr(read, name, None)
        fits = type(value) in allowed or (type(value) is int and float in allowed)
        if value is not None and allowed <= {*PLAIN, type(None)} and not fits:
            found.append(f"{where}.{name} is {value!r}")
    return found


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_are_as_grafanas_schema_has_them(path: Path) -> None:
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    given = json.loads(path.read_text())
    assert misfits(Dashboard.from_json(given), given, path.stem) == []
    panels = given["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    wrong = {**given, "titel": "x", "editable": "yes", "panels": [{**panels[1], "gridPso": {"x": 1}}]}
    assert len(misfits(Dashboard.from_json(wrong), wrong, "wrong")) == 3
