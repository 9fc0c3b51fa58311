"""A real Prometheus scrapes a real server: rules and dashboards are evaluated, and exemplars are there."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from herdpy.testing.process import PortReservation, await_until, spawn
from tests.monitoring.test_rules_and_dashboards import ALERTS, DASHBOARDS, RULES, queries
from tests.support.collector import Collector
from tests.support.server_process import RunningServer

PATIENCE_S = 60.0


@dataclass
class Prometheus:
    """A running one, by its port."""

    port: int

    def get(self, path: str, **arguments: str) -> Any:
        """What its API answers; fails on an error, with its text."""
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{arguments}: {error.read().decode()}") from None
        return json.loads(body)["data"] if path.startswith("/api") else body

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an expression, as of now."""
        found: list[dict[str, Any]] = self.get("/api/v1/query", query=expression)["result"]
        return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """It traces all statements, archives its log and makes backups."""
    directory = tmp_path_factory.mktemp("scraped")
    with Collector() as collector:
        given = {
            "tracing.endpoint": collector.endpoint,
            "tracing.sample_ratio": "1",
            "backup.url": str(directory / "repository"),
        }
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        running = RunningServer(directory / "data", *words).ready()
        with running.connect() as client:
            client.execute("CREATE TABLE t (a INT PRIMARY KEY)")
            client.execute("INSERT INTO t VALUES (1)")
            client.execute("SELECT sum(a) FROM t")
        yield running
        running.close()


def use(server: RunningServer) -> None:
    """Some statements, of which one fails."""
    with server.connect() as client:
        client.execute("DELETE FROM t WHERE a = 2")
        client.execute("INSERT INTO t VALUES (2)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            client.execute("SELECT 1 / 0")


@pytest.fixture(scope="module")
def prometheus(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """With the rules and the job of conf/prometheus, but for the server's port and shorter intervals."""
    directory = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{server.http_port}"]}]
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    reservation = PortReservation("127.0.0.1")
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{reservation.port}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    with (directory / "log").open("wb") as log, spawn(command, stdout=log) as process:
        try:
            made = Prometheus(reservation.port)

            def scrapes() -> bool:
                try:
                    return bool(made.query("up == 1")) and bool(made.query("herdpy:statements:rate5m"))
                except (OSError, AssertionError):  # it is not there yet, or not ready
                    return False

            assert await_until(scrapes, PATIENCE_S), (directory / "log").read_text()
            yield made
        finally:
            process.kill()
            process.wait()
            reservation.close()


def test_every_rule_is_evaluated_without_an_error(prometheus: Prometheus) -> None:
    def all_seen() -> bool:
        groups = prometheus.get("/api/v1/rules")["groups"]
        return all(rule["health"] != "unknown" for group in groups for rule in group["rules"])

    assert await_until(all_seen, PATIENCE_S)
    rules = [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} == set(ALERTS)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    assert {
        rule["name"] for rule in rules if rule["type"] == "alerting" and rule["state"] == "firing"
    } == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_is_evaluated_without_an_error(
    prometheus: Prometheus, server: RunningServer, path: Path
) -> None:
    def empty() -> list[str]:
        use(server)
        return [query for query in queries(path) if not prometheus.query(query)]

    if path.stem == "overview":  # of a server that is alone all of it is there
        assert await_until(lambda: not empty(), PATIENCE_S), empty()
    else:
        assert len(empty()) < len(queries(path))


def test_promtool_finds_nothing_to_say_of_the_metrics(server: RunningServer) -> None:
    status, text = server.get("/metrics")
    assert status == 200
    check = ["promtool", "check", "metrics"]
    ran = subprocess.run(check, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.strip()) == (0, "", "")


def test_a_slow_bucket_leads_to_a_trace(prometheus: Prometheus) -> None:
    def exemplars() -> list[Any]:
        found: list[Any] = prometheus.get(
            "/api/v1/query_exemplars", query="herdpy_statement_seconds_bucket", start="0", end="9999999999"
        )
        return found

    assert await_until(lambda: bool(exemplars()), PATIENCE_S)
    assert all(len(one["labels"]["trace_id"]) == 32 for series in exemplars() for one in series["exemplars"])
