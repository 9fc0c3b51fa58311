"""The command line: what it prints, with which code it ends, and that errors are one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest
from herdpy_broker import claim, finish, reading, types, workers
from herdpy_broker.cli import app
from herdpy_broker.submission import Submission, submit
from herdpy_broker.tables import table
from typer.testing import CliRunner

from herdpy.testing.process import await_until, spawn


@pytest.fixture
def run(url, connection, monkeypatch):
    """Run a command on the database; ``code`` is what it is to end with."""
    monkeypatch.setenv("HERDPY_URL", url)

    def invoke(*arguments, code=0, stdin=None):
        result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
        assert result.exit_code == code, result.output + result.stderr
        if code:
            assert result.stderr.startswith(("herdpy-broker: ", "Usage: ")), result.stderr
            if result.stderr.startswith("herdpy-broker: "):
                assert result.stderr.count("\n") == 1
        return result.stderr if code else result.stdout

    return invoke


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def die(connection, ident):
    worker = workers.register(connection, "w", 1, 60.0)
    claim.claim(connection, worker, reading.task(connection, ident).group, 1)
    finish.fail(connection, worker, ident, "no", may_retry=False)
    workers.leave(connection, worker)


def test_a_task_is_submitted_listed_shown_and_cancelled(run, connection):
    ident = int(run("submit", "mail", '{"to": "ann"}', "-g", "news", "-p", 5, "--batch", "b"))
    (row,) = rows_of(run("tasks", "--group", "news", "--json"))
    assert (row["id"], row["priority"], row["state"]) == (ident, 5, "ready")
    assert f"{ident}  mail  news" in run("tasks")
    assert '{"to": "ann"}' in run("task", ident)
    assert rows_of(run("task", ident, "--json"))[0]["payload"] == {"to": "ann"}
    assert run("cancel", ident) == f"Task {ident} is cancelled.\n"
    assert run("cancel", ident, code=1) == f"herdpy-broker: task {ident} does not live\n"
    assert run("tasks", "--json") == ""


def test_a_file_is_submitted_in_transactions(run, connection, tmp_path):
    lines = [json.dumps({"type": "mail", "payload": n, "group": "f"}) for n in range(25)]
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join([*lines[:10], "", *lines[10:]]))
    assert run("submit-file", file, "--at-once", 10) == "25 tasks submitted.\n"
    assert run("submit-file", "-", stdin=lines[0]) == "1 tasks submitted.\n"
    assert len(rows_of(run("tasks", "-g", "f", "--json"))) == 26


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"type": "mail", "colour": 1}',
        '{"type": "mail", "after": 3}',
        '{"type": "mail", "priority": "x"}',
    ],
)
def test_a_bad_line_is_named_and_what_was_submitted_is_counted(run, connection, line):
    good = '{"type": "mail"}'
    error = run("submit-file", "-", "--at-once", 1, stdin=f"{good}\n{good}\n{line}\n", code=2)
    assert "2 tasks were submitted before" in error
    assert connection.execute("SELECT count(*) FROM broker.task").fetchall() == [(2,)]


WRONG = {
    ("submit", "mail", "{bad"): "the payload is no JSON",
    ("submit", "mail", "--delay", "-1"): "delay_s is from 0.0",
    ("submit", "mail", "--delay", "nan"): "delay_s is a number of seconds",
    ("submit", "mail", "--wait-for-slot"): "waits_for_slot needs a slot",
    ("submit", "x" * 201): "type is a text of 1 to 200 characters",
    ("submit",): "Missing argument",
    ("tasks", "--state", "gone"): "a state is one of",
    ("tasks", "--most", "0"): "most is an integer from 1",
    ("tasks", "--most", "100000"): "most is an integer from 1",
    ("task", "abc"): "Invalid value for 'id'",
    ("dead", "--reason", "none"): "a reason is one of",
    ("retry",): "name tasks, or give --all",
    ("retry", "1", "--all"): "name tasks, or give --all",
    ("retry", "1", "--group", "g"): "a filter goes with --all",
    ("group", "g", "--weight", "0"): "weight is an integer from 1",
    ("group", ""): "a group's name is a text",
    ("type", "t", "--factor", "0.5"): "backoff_factor is at least 1",
    ("schedule", "s", "mail"): "a schedule has cron, or every_s",
    ("schedule", "s", "mail", "--cron", "* * * * *", "--every", "3"): "a schedule has cron, or every_s",
    ("schedule", "s", "mail", "--cron", "99 * * * *"): "cron '99 * * * *' names no time",
    ("schedule", "s", "mail", "--every", "60", "--timezone", "Nowhere/None"): "no time zone 'Nowhere/None'",
    ("submit-file", "-", "--at-once", "0"): "--at-once is from 1",
    ("work", "nowhere"): "handlers are named as module:name",
    ("work", "no_such_module:HANDLERS"): "No module named 'no_such_module'",
    ("work", "json:loads"): "not a mapping of types to handlers",
    ("serve", "--host", "0.0.0.0"): "give --token-file, or listen on 127.0.0.1",
    ("serve", "--port", "70000"): "Invalid value for '--port'",
    ("top", "--interval", "0"): "Invalid value for '--interval'",
    ("nonsense",): "No such command 'nonsense'",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_is_used_wrongly_ends_with_2(run, arguments):
    assert WRONG[arguments] in run(*arguments, code=2)


FAILING = {
    ("submit", "none"): "there is no type 'none'",
    ("submit", "mail", "--after", "999999999"): "there is no task 999999999",
    ("task", "999999999"): "there is no task 999999999",
    ("cancel", "999999999"): "task 999999999 does not live",
    ("unschedule", "none"): "there is no schedule 'none'",
    ("schedule", "s", "none", "--every", "60"): "there is no type 'none'",
    ("submit-file", "/no/such/file"): "No such file or directory",
    ("serve", "--token-file", "/no/such/file"): "No such file or directory",
}


@pytest.mark.parametrize("arguments", FAILING)
def test_what_fails_ends_with_1(run, arguments):
    assert FAILING[arguments] in run(*arguments, code=1)


def test_a_database_is_needed(monkeypatch, tmp_path):
    monkeypatch.delenv("HERDPY_URL", raising=False)
    result = CliRunner().invoke(app, ["tasks"])
    assert (result.exit_code, "HERDPY_URL" in result.stderr) == (2, True)
    result = CliRunner().invoke(app, ["tasks", "--url", str(tmp_path / "db")])
    assert (result.exit_code, "migrate" in result.stderr) == (1, True)
    assert CliRunner().invoke(app, ["migrate", "--url", str(tmp_path / "db")]).exit_code == 0
    assert CliRunner().invoke(app, ["tasks", "--url", str(tmp_path / "db")]).exit_code == 0


def test_dead_letters_are_listed_and_retried(run, connection):
    ids = [submit(connection, Submission("mail", group=group)) for group in "aab"]
    for ident in ids:
        die(connection, ident)
    assert [row["id"] for row in rows_of(run("dead", "--json"))] == ids[::-1]
    assert [row["id"] for row in rows_of(run("dead", "-g", "b", "--reason", "failed", "--json"))] == ids[2:]
    assert run("retry", "--all", "-g", "a") == "2 tried again.\n"
    assert run("retry", ids[2]) == "1 tried again.\n"
    result = CliRunner().invoke(app, ["retry", str(ids[2])])
    assert (result.exit_code, result.stdout) == (1, "0 tried again. 1 were no dead letters.\n")


def test_groups_types_and_schedules(run, connection):
    run("group", "g", "--weight", 3, "--max-running", 4, "--pause")
    run("group", "g", "--weight", 5)
    (row,) = rows_of(run("groups", "--json"))
    assert (row["weight"], row["max_running"], row["paused"], row["ready"]) == (5, 4, True, 0)
    run("group", "g", "--max-running", 0, "--resume")
    (row,) = rows_of(run("groups", "--json"))
    assert (row["weight"], row["max_running"], row["paused"]) == (5, None, False)
    run("type", "mail", "--max-attempts", 5)
    assert rows_of(run("types", "--json"))[0]["max_attempts"] == 5
    run("schedule", "s", "mail", '{"a": 1}', "--cron", "0 3 * * *", "--timezone", "Europe/Vienna", "--paused")
    (row,) = rows_of(run("schedules", "--json"))
    assert (row["name"], row["payload"], row["paused"]) == ("s", {"a": 1}, True)
    assert run("unschedule", "s") == "Schedule s is removed.\n"
    workers.register(connection, "printer", 4, 60.0)
    assert "printer" in run("workers")
    assert rows_of(run("workers", "--json"))[0]["running"] == 0


def test_top_shows_rates_from_its_second_look_on(run, connection):
    submit(connection, Submission("mail", group="seen"))
    first, second = run("top", "--interval", 0.2, "-n", 2).split("UTC")[1:]
    assert "submitted -" in first
    assert "submitted 0.0/s" in second
    assert "seen" in second


def test_tables_are_safe_for_terminals():
    text = table(("name", "n"), [("a\x1b[31mb\nc", 1), ("x" * 100, None)])
    assert "\x1b" not in text
    assert len(text.splitlines()) == 4
    assert max(map(len, text.splitlines())) < 70


def test_every_command_has_an_example_in_its_help():
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"Example: herdpy-broker {name}" in command.callback.__doc__, name
    result = CliRunner().invoke(app, ["serve", "--help"])
    assert (result.exit_code, "Example: herdpy-broker serve" in result.stdout) == (0, True)


# As processes of their own, on a server.


def test_a_worker_and_the_page_run_as_commands(server_url, server_db, tmp_path):
    (tmp_path / "shop.py").write_text("HANDLERS = {'double': lambda context: context.task.payload * 2}\n")
    (tmp_path / "token").write_text("a-token-of-length\n")
    environment = {
        "HERDPY_URL": server_url,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
    }
    program = [sys.executable, "-c", "from herdpy_broker.cli import app; app(prog_name='herdpy-broker')"]

    types.define(server_db, "double")
    ident = submit(server_db, Submission("double", 21))
    started = [
        spawn([*program, *arguments], stdout=subprocess.PIPE, environment=environment)
        for arguments in (
            ("work", "shop:HANDLERS"),
            ("serve", "--port", "0", "--token-file", str(tmp_path / "token")),
        )
    ]
    try:
        assert await_until(lambda: reading.task(server_db, ident).state == "done", 60)
        assert reading.task(server_db, ident).result == 42
        address = started[1].stdout.readline().decode().split()[-1]
        headers = {"authorization": "Bearer a-token-of-length"}
        metrics = httpx.get(f"{address}metrics", headers=headers, verify=False).text
        assert "herdpy_broker_up" in metrics
        assert httpx.get(address, verify=False).status_code == 303
    finally:
        for one in started:
            one.send_signal(signal.SIGTERM)
        codes = [one.wait(30) for one in started]
        said = b"".join(one.stdout.read() for one in started)
        for one in started:
            one.stdout.close()
    assert codes[0] == 0
    assert b"a-secret-password" not in said
    assert b"Traceback" not in said
