"""Logs: lines of text or JSON that no client can forge, without secrets, and slow statements."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from herdpy.logging_lines import JsonFormatter, TextFormatter
from herdpy_server.process.logs import Logs
from herdpy_server.process.statements import BUCKETS_S, StatementStatistics, kind_of, shown
from herdpy_server.roles.effective_role import unlimited_role
from herdpy_server.sessions.identity import Identity, Observer
from herdpy_server.sessions.plans import PlanCache
from herdpy_sql.catalog import Catalog
from herdpy_sql.errors import SqlError


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    """A record as a logger makes it."""
    return logging.getLogger("herdpy.test").makeRecord(
        "herdpy.test", logging.WARNING, __file__, 1, message, args, None, extra=extra
    )


def test_a_line_of_text_has_time_level_logger_message_and_fields():
    line = TextFormatter().format(record("%d rows", 5, table="t", note="two words", empty=""))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING herdpy\.test: 5 rows "
        r'table=t note="two words" empty=""',
        line,
    )


def test_a_line_of_json_has_the_same():
    said = json.loads(JsonFormatter().format(record("%d rows", 5, table="t", level="own", odd={1})))
    assert said.pop("time").endswith("Z")
    assert said == {
        "level": "warning",
        "logger": "herdpy.test",
        "message": "5 rows",
        "table": "t",
        "level_": "own",
        "odd": "{1}",
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_what_a_client_sends_makes_no_lines_of_its_own(formatter):
    evil = "x\n2026-01-01T00:00:00.000Z ERROR herdpy.server: gone\r\x1b[2J\u2028"
    line = formatter.format(record("it said %s", evil, field=evil))
    assert line.isprintable()


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_is_told_with_its_traceback(formatter):
    try:
        raise ZeroDivisionError("of the test")
    except ZeroDivisionError:
        made = record("it failed")
        made.exc_info = sys.exc_info()
    assert "ZeroDivisionError: of the test" in formatter.format(made)


@pytest.fixture
def logs(tmp_path):
    """Logs into a file, opened."""
    made = Logs("json", str(tmp_path / "log"))
    made.set_levels("info", {})
    made.open()
    yield made
    made.close()


def lines(path) -> list[str]:
    """The messages of a log file."""
    return [json.loads(line)["message"] for line in path.read_text().splitlines()]


def test_levels_can_be_changed_while_it_runs(logs, tmp_path):
    part, other = logging.getLogger("herdpy.part"), logging.getLogger("herdpy.other")
    part.debug("one")
    logs.set_levels("info", {"herdpy.part": "debug"})
    part.debug("two")
    other.debug("three")
    logs.set_levels("error", {})
    part.debug("four")
    part.warning("five")
    logging.getLogger("uvicorn.error").info("six")
    logging.getLogger("uvicorn.error").warning("seven")
    logs.close()
    assert lines(tmp_path / "log") == ["two", "seven"]


def test_a_file_that_was_moved_away_is_made_anew(logs, tmp_path):
    logger = logging.getLogger("herdpy.part")
    logger.info("one")
    logs.close()
    os.rename(tmp_path / "log", tmp_path / "log.1")
    again = Logs("json", str(tmp_path / "log"))
    again.set_levels("info", {})
    again.open()
    logger.info("two")
    again.close()
    assert (lines(tmp_path / "log.1"), lines(tmp_path / "log")) == (["one"], ["two"])


def test_logging_does_not_wait_for_a_reader_that_has_stopped(tmp_path):
    """Far more is logged than a pipe and the queue hold, with nobody who reads."""
    code = (
        "import logging\n"
        "from herdpy_server.process.logs import Logs\n"
        "logs = Logs('json'); logs.set_levels('info', {}); logs.open()\n"
        "for number in range(50_000): logging.getLogger('herdpy.x').info('line %d ' + 'x' * 100, number)\n"
        "print(logs.dropped > 0, flush=True)\n"
        "input()\n"
        "logs.close()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"True\n"
    _, said = process.communicate(b"\n")
    assert process.returncode == 0
    written = [json.loads(line)["message"] for line in said.splitlines()]
    (missing,) = [message for message in written if "dropped" in message]
    assert len(written) - 1 + int(missing.split()[0]) == 50_000


# Statements


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT 1", "SELECT"),
        ("  /* a */ -- b\n ( select 1)", "SELECT"),
        ("with x as (select 1) table x", "SELECT"),
        ("end", "COMMIT"),
        ("", "OTHER"),
        ("1", "OTHER"),
        ("made up by a client", "OTHER"),
    ],
)
def test_a_statement_has_a_kind(text, kind):
    assert kind_of(text) == kind


def observer_of(statistics: StatementStatistics) -> Observer:
    """The observer of a session that waits for nothing."""
    waits = SimpleNamespace(log_s=0.0, lock_s=0.0, worker_s=0.0, questions=0, changes=0)
    session = SimpleNamespace(
        settings=SimpleNamespace(path=("public",), revision=1, explain_after_s=math.inf),
        waits=waits,
        effective_role=unlimited_role(),
        identity=Identity(),
        catalog=Catalog(),
        plans=PlanCache(),
    )
    return statistics.of_session(cast(Any, session))


def test_there_are_no_more_kinds_or_states_than_we_know_whatever_clients_send():
    statistics = StatementStatistics()
    observe = observer_of(statistics)
    for number in range(10_000):
        observe(f"WORD{chr(65 + number % 26)}{number}", 0.001, 0, None)
        observe("SELECT 1", 0.001, -1, SqlError(f"{number:05d}", "of the test"))
    assert set(statistics.kinds) == {"OTHER", "SELECT"}
    assert statistics.kinds["OTHER"].ok == 10_000
    assert len(statistics.errors) <= 201
    assert sum(statistics.errors.values()) == 10_000


def test_a_latency_falls_into_the_bucket_whose_bound_it_does_not_pass():
    statistics = StatementStatistics()
    observe = observer_of(statistics)
    for seconds in (0.0, BUCKETS_S[0], BUCKETS_S[0] * 1.01, BUCKETS_S[-1], BUCKETS_S[-1] * 2):
        observe("SELECT 1", seconds, 1, None)
    counts = statistics.kinds["SELECT"].buckets
    assert (counts[0], counts[1], counts[-2], counts[-1], sum(counts)) == (2, 1, 1, 1, 5)


def test_a_password_is_not_shown():
    text = "CREATE ROLE ann LOGIN password 'hunter2'"
    assert shown(text, 1000) == "CREATE ROLE ann LOGIN password ..."
    assert shown("SELECT 'long'", 8) == "SELECT '..."


def test_slow_statements_are_told_with_time_rows_and_error(start):
    server = start("--set", "logging.slow_statement_s=0", "--set", "logging.slow_statement_chars=20").ready()
    with server.connect() as connection:
        connection.execute("SELECT * FROM generate_series(1, 3)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
    good = server.wait_for(lambda one: one.get("statement") == "SELECT * FROM genera...")
    assert (good["message"], good["logger"], good["rows"]) == ("slow statement", "herdpy.statements", 3)
    assert good["seconds"] > 0
    assert good["plan"].splitlines()[-1] == "Engine: columnar"
    bad = server.wait_for(lambda one: one.get("statement") == "SELECT 1 / 0")
    assert bad["sqlstate"] == "22012"


def test_passwords_are_in_no_log(start):
    server = start("--set", "logging.slow_statement_s=0", "--log-level", "debug").ready()
    with server.connect() as connection:
        for statement in (
            "CREATE ROLE ann LOGIN PASSWORD 'hunter2'",
            "ALTER ROLE ann PASSWORD 'hunter2",
            "ALTER USER nobody WITH ENCRYPTED PASSWORD 'hunter2' nonsense",
        ):
            try:
                connection.execute(statement)
            except psycopg.Error:
                continue
    server.stop()
    assert len([one for one in server.records() if one["message"] == "slow statement"]) >= 1
    assert "hunter2" not in "\n".join(server.lines)


def test_lines_can_be_text(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "herdpy.cli", "server", "--data", tmp_path, "--set", "data.create=false"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert re.search(r"^\S+Z CRITICAL herdpy\.server: cannot start: there is no database", done.stderr, re.M)
    assert done.stdout == ""
