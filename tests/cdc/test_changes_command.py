"""``herdpy changes`` as it is asked: where it begins, which table, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_where_it_begins(sql, changes):
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    ((position,),) = sql("SELECT herdpy.commit_position()")
    ((time,),) = sql("SELECT clock_timestamp()")
    sql("INSERT INTO t VALUES (2)")
    for begin in (position, time.isoformat()):
        assert [change["key"] for change in changes.lines("--table", "t", "--from", begin)] == [{"id": 2}]
    assert changes.lines("--table", "t", "--from", "latest") == []
    assert len(changes.lines("--table", "t")) == 3


def test_tables_of_other_schemas_and_temporary_ones(sql, changes):
    sql("CREATE SCHEMA app", "CREATE TEMP TABLE t (id INT)", "CREATE TABLE app.t (id INT PRIMARY KEY)")
    sql("INSERT INTO pg_temp.t VALUES (9)", "CREATE TABLE public.t (x TEXT)", "INSERT INTO app.t VALUES (1)")
    assert [change["after"] for change in changes.lines("--table", "app.t")] == [None, {"id": 1}]
    assert [change["op"] for change in changes.lines("--table", "t")] == ["create"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--table", "gone"], 2, 'there is no table "gone" now; --follow waits for it'),
        (["--table", "t", "--from", "soon"], 2, "startingOffsets takes earliest, latest, an LSN"),
        (["--table", "t", "--from", "9:9"], 2, "it has no 9:9 yet"),
        (["--table", "t", "--format", "avro"], 2, "--registry is for --format avro, which needs it"),
        (["--table", "t", "--registry", "http://127.0.0.1:1"], 2, "--registry is for --format avro"),
        (["--table", "t", "--format", "avro", "--registry", "x"], 2, "http://host:8081, not 'x'"),
        (["--table", "t", "--to", "kafka://"], 2, "a topic is kafka://host:port/topic"),
        (["--table", "t", "--to", "no/such/place"], 1, "No such file or directory"),
    ],
)
def test_what_is_refused(sql, changes, arguments, code, said):
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    assert said in changes.run(*arguments, code=code)


def test_spark_is_not_needed(sql, changes, tmp_path):
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        f"sys.argv = ['herdpy', 'changes', {str(tmp_path / 'db')!r}, '--table', 't']\n"
        "from herdpy.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["op"] == "create"
