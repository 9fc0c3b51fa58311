"""``herdpy sql`` without a prompt: -c, -f, standard input, formats, errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.cli.processes import command, environment

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'a'), (2, NULL);"


@pytest.fixture
def filled(run, db):
    run("sql", db, "-c", TABLE)
    return db


def test_commands_make_a_database_and_show_tags_and_tables(run, db):
    result = run("sql", db, "-c", TABLE, "-c", "SELECT * FROM t ORDER BY id; DELETE FROM t WHERE id = 2")
    assert result.stdout == (
        "CREATE TABLE\n"
        "INSERT 0 2\n"
        "┌────┬──────┐\n"
        "│ id │ name │\n"
        "├────┼──────┤\n"
        "│  1 │ a    │\n"
        "│  2 │ NULL │\n"
        "└────┴──────┘\n"
        "(2 rows)\n"
        "DELETE 1\n"
    )


def test_notifications_are_printed_as_psql_does(run, db):
    asked = ("-c", "LISTEN a", "-c", "NOTIFY a, 'x'", "-c", "NOTIFY a")
    heard = 'Asynchronous notification "a"{} received from server process with PID 1.\n'
    shown = run("sql", db, *asked).stdout
    assert shown == "LISTEN\nNOTIFY\n" + heard.format(' with payload "x"') + "NOTIFY\n" + heard.format("")
    result = run("sql", db, "--format", "csv", *asked)
    assert result.stdout == ""
    assert heard.format("") in result.stderr


@pytest.mark.parametrize("name", ["{db}", "herdpy://{db}", "herdpy:///{db}"])
def test_urls_and_directories_name_the_same_database(run, filled, name):
    url = name.format(db=filled)
    assert run("sql", url, "--format", "csv", "-c", "SELECT count(*) AS n FROM t").stdout == "n\n2\n"


def test_formats(run, filled):
    query = ["-c", "SELECT * FROM t ORDER BY id"]
    assert run("sql", filled, *query, "--format", "csv").stdout == "id,name\n1,a\n2,\n"
    assert run("sql", filled, *query, "--format", "csv", "--no-header").stdout == "1,a\n2,\n"
    assert json.loads(run("sql", filled, *query, "--json").stdout) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
    ]
    assert run("sql", filled, *query, "--format", "jsonl").stdout.splitlines()[1] == '{"id": 2, "name": null}'
    arrow = run("sql", filled, *query, "--format", "arrow").stdout_bytes
    assert pa.ipc.open_stream(arrow).read_all().to_pydict() == {"id": [1, 2], "name": ["a", None]}


def test_output_goes_to_a_file(run, filled, tmp_path):
    out = tmp_path / "out.csv"
    assert run("sql", filled, "-c", "SELECT 1 AS x", "--format", "csv", "-o", out).stdout == ""
    assert out.read_text() == "x\n1\n"


def test_standard_input_is_a_script(run, filled):
    script = "-- a comment\n\\x\nSELECT name FROM t\nWHERE id = 1;\n\\x off\nSELECT ';' AS semi"
    result = run("sql", filled, "-q", input=script)
    assert [line.split() for line in result.stdout.splitlines() if line.strip()][:2] == [
        ["row", "1"],
        ["name", "a"],
    ]
    assert "│ semi │" in result.stdout


def test_scripts_run_scripts_and_errors_name_file_and_line(run, filled, tmp_path):
    inner = tmp_path / "inner.sql"
    inner.write_text("INSERT INTO t VALUES (3, 'c');\n\nSELECT 1 / 0;\nINSERT INTO t VALUES (4, 'd');\n")
    outer = tmp_path / "outer.sql"
    outer.write_text(f"\\i {inner}\nINSERT INTO t VALUES (5, 'e');\n")
    result = run("sql", filled, "-f", outer, code=1)
    assert f"{inner}:3: ERROR:  22012: division by zero" in result.stderr
    assert run("sql", filled, "--json", "-c", "SELECT id FROM t ORDER BY id").stdout.count("id") == 3
    run("sql", filled, "-f", outer, "--keep-going", code=1)
    found = run("sql", filled, "--format", "csv", "--no-header", "-c", "SELECT max(id) FROM t").stdout
    assert found == "5\n"


def test_a_script_that_runs_itself_ends(run, filled, tmp_path):
    loop = tmp_path / "loop.sql"
    loop.write_text(f"\\i {loop}\n")
    assert "nested more than" in run("sql", filled, "-f", loop, code=1).stderr


def test_single_transaction_keeps_all_or_nothing(run, filled):
    insert = "INSERT INTO t VALUES ({}, 'x')"
    count = ("sql", filled, "--format", "csv", "--no-header", "-c", "SELECT count(*) FROM t")
    run("sql", filled, "-1", "-c", insert.format(8), "-c", insert.format(1), code=1)
    assert run(*count).stdout == "2\n"
    run("sql", filled, "-1", "-c", insert.format(8), "-c", insert.format(9))
    assert run(*count).stdout == "4\n"


def test_errors_tell_state_detail_and_place(run, filled):
    result = run("sql", filled, "-c", "INSERT INTO t VALUES (1, 'again')", code=1)
    assert "ERROR:  23505: duplicate key value violates unique constraint" in result.stderr
    assert "DETAIL:  Key (id)=(1) already exists." in result.stderr
    result = run("sql", filled, "-c", "SELECT id\n  FROM t WHERE WHERE", code=1)
    assert "ERROR:  42601: " in result.stderr
    line, caret = result.stderr.splitlines()[1:3]
    assert line.startswith("LINE ")
    assert caret.strip() == "^"


def test_describe_commands(run, filled):
    run("sql", filled, "-c", "CREATE TABLE u (a TEXT NOT NULL DEFAULT 'x', n NUMERIC(8,2), CHECK (n > 0))")
    run("sql", filled, "-c", "CREATE UNIQUE INDEX u_a ON u (a, n DESC)")
    shown = run("sql", filled, input="\\d\n\\d u\n\\d T\n\\di\n\\l\n\\conninfo\n").stdout
    assert "│ t     │       2 │ id          │       0 │" in shown
    assert 'Table "u"' in shown
    assert "│ n      │ numeric(8,2) │" in shown
    assert "not null" in shown
    assert 'Index: "u_a" UNIQUE (a, n DESC)' in shown
    assert "n > 0" in shown
    assert 'Primary key: "t_pkey" (id)' in shown
    assert "│ u_a    │ u     │ yes    │ a, n DESC │" in shown
    assert str(filled) in shown


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("\\nope", "there is no command \\nope"),
        ("\\d nope", 'there is no table "nope"'),
        ("\\x maybe", "usage: \\x [on|off]"),
        ("\\q now", "usage: \\q"),
        ("\\i", "usage: \\i FILE"),
        ("\\i /nowhere/x.sql", "cannot read /nowhere/x.sql"),
        ("\\d 'a", "No closing quotation"),
    ],
)
def test_backslash_commands_that_are_wrong(run, filled, line, message):
    assert message in run("sql", filled, input=f"{line}\n", code=1).stderr


def test_quit_ends_a_script(run, filled):
    assert run("sql", filled, "-q", input="\\q\nSELECT 1/0;\n").stdout == ""


def test_help_lists_every_command_and_needs_no_engine(tmp_path):
    heavy = "{'duckdb', 'pyarrow', 'lmdb', 'msgspec', 'sqlglot', 'prompt_toolkit', 'pandas'}"
    code = (
        "import sys; from typer.testing import CliRunner; from herdpy.cli.app import app;"
        "print(CliRunner().invoke(app, ['--help']).stdout);"
        f"sys.exit(str(sorted({heavy} & set(sys.modules))) if {heavy} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("sql", "import", "export", "log", "check", "info", "checkpoint", "version"):
        assert f" {name} " in done.stdout


def test_a_driver_only_install_is_told_what_it_lacks(tmp_path):
    code = (
        "import sys; sys.modules['lmdb'] = None; from herdpy.cli import main;"
        f"sys.argv = ['herdpy', 'sql', {str(tmp_path / 'db')!r}, '-c', 'SELECT 1']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the Python package lmdb, which is not installed" in done.stderr
    assert "pip install herdpydb " in done.stderr


@pytest.mark.parametrize("name", ["sql", "import", "export", "log", "check", "info", "checkpoint", "version"])
def test_every_command_has_help_with_examples(run, name):
    text = run(name, "--help").stdout
    assert "Examples:" in text
    assert f"herdpy {name}" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql"],
        ["nope"],
        ["sql", "db", "--format", "xml", "-c", "SELECT 1"],
        ["check", "herdpy://host:9/x", "--log-only"],
        ["sql", "postgres://host/x", "-c", "SELECT 1"],
        ["sql", "db", "-f", "/nowhere.sql"],
        ["import", "db", "/nowhere.csv", "-t", "t"],
        ["export", "db", "t"],
    ],
)
def test_wrong_usage_is_two(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    run(*arguments, code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_database_open_elsewhere_is_told(run, filled, tmp_path):
    opening = f"c = herdpy.connect({str(filled)!r}); print('open', flush=True)"
    code = f"import herdpy, sys; {opening}; sys.stdin.read(); c.close()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout.readline() == "open\n"
        result = run("sql", filled, "-c", "SELECT 1", code=1)
        assert f"DETAIL:  Its process id is {other.pid}." in result.stderr
        listed = run("log", filled, "--json").stdout  # looking is possible all the same
        assert json.loads(listed)[0]["ledger"] == 1
        run("check", filled)
        other.stdin.close()


def test_a_closed_pipe_is_no_error_to_shout_about(filled, tmp_path):
    sql = "SELECT * FROM generate_series(1, 200000)"
    with subprocess.Popen(
        command("sql", filled, "--format", "csv", "-c", sql),
        stdout=-1,
        stderr=-1,
        text=True,
        env=environment(tmp_path),
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
