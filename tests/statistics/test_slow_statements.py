"""Plans of slow statements in the log: by the server's threshold, and by a session's (auto_explain)."""

from __future__ import annotations

import logging

import psycopg
import pytest

from tests.statistics.conftest import Counted


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str | None]]:
    found = [record for record in caplog.records if record.message == "slow statement"]
    return [(record.__dict__["statement"], record.__dict__.get("plan")) for record in found]


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "herdpy.statements")


def test_a_slow_statement_is_logged_with_its_plan(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    with counted.connect() as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute("SELECT v FROM t WHERE id = 1")
        counted.server.look(lambda: setattr(counted.statistics, "slow_s", 0.0))
        client.execute("SELECT v FROM t WHERE id = 1")
        client.execute("SELECT sum(v) FROM t GROUP BY id")
        counted.statistics.slow_plan = False
        client.execute("SELECT v FROM t WHERE id = 2")
        counted.server.look(lambda: setattr(counted.statistics, "slow_s", -1.0))
        client.execute("SELECT v FROM t WHERE id = 3")
    (by_key, key_plan), (summed, sum_plan), (_last, no_plan) = logged(caplog)
    assert (by_key, summed) == ("SELECT v FROM t WHERE id = $1", "SELECT sum(v) FROM t GROUP BY id")
    assert key_plan is not None
    assert "Key Get on t using t_pkey" in key_plan
    assert sum_plan is not None
    assert sum_plan.endswith("Engine: columnar")
    assert no_plan is None


def test_a_session_has_its_own_threshold(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    counted.statistics.slow_plan = False
    with counted.connect() as client, counted.connect() as other:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        client.execute("SET auto_explain.log_min_duration = 0")
        client.execute("SELECT v FROM t WHERE id = 1")
        other.execute("SELECT v FROM t WHERE id = 2")
        client.execute("SET auto_explain.log_min_duration = '1h'")
        client.execute("SELECT v FROM t WHERE id = 3")
        client.execute("SET auto_explain.log_min_duration = -1")
        client.execute("SELECT v FROM t WHERE id = 4")
        assert client.execute("SHOW auto_explain.log_min_duration").fetchone() == ("-1",)
    found = [plan for statement, plan in logged(caplog) if statement.startswith("SELECT v")]
    assert len(found) == 1
    assert found[0] is not None
    assert "Key Get on t" in found[0]


@pytest.mark.parametrize(
    ("setting", "value", "sqlstate"),
    [
        ("log_analyze", "on", "0A000"),
        ("log_buffers", "true", "0A000"),
        ("log_format", "json", "0A000"),
        ("sample_rate", "0.5", "0A000"),
        ("log_nested_statements", "on", "0A000"),
        ("log_min_duration", "-2", "22023"),
        ("log_min_duration", "soon", "22023"),
        ("log_everything", "on", "42704"),
        ("log_analyze", "off", None),
        ("sample_rate", "1", None),
        ("log_timing", "yes", None),
    ],
)
def test_what_is_not_done_is_refused(
    counted: Counted, setting: str, value: str, sqlstate: str | None
) -> None:
    with counted.connect() as client:
        found = None
        try:
            client.execute(f"SET auto_explain.{setting} = '{value}'")
        except psycopg.Error as error:
            found = error.sqlstate
        assert found == sqlstate


def test_superusers_alone_may(counted: Counted) -> None:
    with counted.connect() as client:
        client.execute("CREATE ROLE clerk")
        client.execute("SET ROLE clerk")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("SET auto_explain.log_min_duration = 0")
