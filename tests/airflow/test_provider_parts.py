"""The parts of Airflow's provider that need no Airflow: addresses, positions, job processes."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from herdpy.dbapi.url import parse
from herdpy.log.lsn import LSN
from herdpy_airflow import job_process, positions
from herdpy_airflow.addresses import AddressError, address

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "orchestration" / "herdpy_airflow"
WITHOUT_AIRFLOW = {"__init__", "addresses", "get_provider_info", "job_process", "positions"}


def fields(**given):
    blank = dict.fromkeys(("host", "port", "login", "password", "schema"))
    return {**blank, "extra": {}, **given}


@pytest.mark.parametrize(
    ("given", "driver", "sqlalchemy"),
    [
        ({"host": "db1"}, "herdpy://db1:5432/herdpy", "herdpy://db1:5432/herdpy"),
        (
            {"host": "db1:1,db2", "port": 7, "login": "a b", "password": "p@/", "schema": "my shop"},
            "herdpy://db1:1,db2:7/my%20shop",
            "herdpy://a%20b:p%40%2F@db1:1/my%20shop?hosts=db2%3A7",
        ),
        (
            {"host": "::1", "port": 5, "extra": {"sslmode": "require", "autocommit": True, "dialect": "x"}},
            "herdpy://[::1]:5/herdpy?sslmode=require&autocommit=true",
            "herdpy://[::1]:5/herdpy?sslmode=require&autocommit=true",
        ),
        (
            {"login": "ann", "schema": "shop", "extra": {"zookeeper": "zk1,zk2:2182/root"}},
            "herdpy+zk://zk1:2181,zk2:2182/root?tablespace=shop",
            "herdpy+zk://ann@zk1:2181/root?tablespace=shop&hosts=zk2%3A2182",
        ),
        ({"extra": {"directory": "/data/my shop"}}, "herdpy:///data/my%20shop", "herdpy:////data/my%20shop"),
    ],
)
def test_urls(given, driver, sqlalchemy):
    found = address(**fields(**given))
    assert (found.driver_url, found.sqlalchemy_url) == (driver, sqlalchemy)
    parse(found.driver_url)  # the driver takes it
    assert "p@/" not in repr(found)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"host": "db1", "extra": {"zookeeper": "zk1"}},
        {"host": "db1", "extra": {"directory": "/data"}},
        {"host": "db1,"},
        {"host": "db1:many"},
        {"host": "db1:99999"},
        {"host": "[::1"},
        {"host": "db1", "extra": {"hosts": ["db2"]}},
        {"port": 2181, "extra": {"zookeeper": "zk1"}},
        {"extra": {"directory": "relative"}},
        {"login": "ann", "extra": {"directory": "/data"}},
    ],
)
def test_what_a_connection_may_not_say(given):
    with pytest.raises(AddressError):
        address(**fields(**given))


def test_positions():
    position = LSN(3, 10)
    assert positions.reached(["3:10", "4:0"], position)
    assert not positions.reached(["3:9", "4:0"], position)  # as text it would be behind
    assert not positions.reached(["4:0", None], position)  # a replica that has not said where it is
    assert not positions.reached([], position)


def test_an_export_that_is_not_there_yet(tmp_path):
    assert positions.exported(str(tmp_path / "none")) == []
    with pytest.raises(ValueError, match="not a path of this machine"):
        positions.exported("s3://bucket/export")


def test_the_newest_generation_of_an_export(tmp_path):
    from herdpy_spark.jobs.exporting.generations import FORMAT

    assert FORMAT == positions.MANIFEST_FORMAT
    (tmp_path / "_herdpy").mkdir()
    for number, lsn in ((2, "3:4"), (10, "5:6"), (9, "5:0")):
        document = {"format": FORMAT, "lsn": lsn}
        (tmp_path / "_herdpy" / f"manifest-{number:08}.json").write_text(json.dumps(document))
    assert positions.exported(str(tmp_path)) == ["5:6"]
    (tmp_path / "_herdpy" / "manifest-00000011.json").write_text('{"format": 2, "lsn": "6:6"}')
    with pytest.raises(ValueError, match="format 2"):
        positions.exported(str(tmp_path))


def test_queries_of_positions(tmp_path):
    import herdpy

    with herdpy.connect(f"herdpy:{tmp_path}/db", autocommit=True) as conn:
        conn.execute("CREATE TABLE t (a INT PRIMARY KEY)")
        (position,) = conn.execute("SELECT herdpy.commit_position()").fetchone()
        for place in ("server", "replicas"):
            rows = conn.execute(positions.QUERIES[place]).fetchall()
            assert positions.reached([one for (one,) in rows], LSN.parse(position)), place
        assert not positions.reached(
            [one for (one,) in conn.execute(positions.QUERIES["snapshot"]).fetchall()], LSN.parse(position)
        )


def test_a_run_has_one_name_in_all_its_tries_and_no_other_run_has_it():
    names = [
        job_process.run_name("export", "dag", "run 1", -1),
        job_process.run_name("export", "dag", "run 2", -1),
        job_process.run_name("export", "dag", "run 1", 0),
        job_process.run_name(
            "group.täsk with a very long name, longer than a run's may be", "dag", "run 1", -1
        ),
        job_process.run_name("--", "dag", "run 1", -1),
    ]
    assert len(set(names)) == len(names)
    assert job_process.run_name("export", "dag", "run 1", -1) == names[0]
    from herdpy_spark.jobs.job import run_id

    assert [run_id(name) for name in names] == names  # the jobs take it


def test_named_jobs_are_those_that_take_a_name():
    from herdpy_spark.jobs import JOBS
    from herdpy_spark.jobs.job import job_parser
    from herdpy_spark.jobs.running import job_named

    taking = {
        name: flag
        for name in JOBS
        for flag in ("--run-id", "--load-id")
        if flag in job_parser(job_named(name))._option_string_actions
    }
    assert taking == job_process.NAMED_BY


def test_a_command_line():
    there = address(**fields(host="db1", login="ann", password="secret"))
    rest = job_process.job_arguments("export", there, ["--table", "t"], "n1", Path("/r"))
    assert rest == [
        *("--url", "herdpy://db1:5432/herdpy", "--user", "ann", "--table", "t"),
        *("--run-id", "n1", "--report", "/r"),
    ]
    with pytest.raises(ValueError, match="--url"):
        job_process.job_arguments("export", there, ["--url=x"], "n1", Path("/r"))
    command = job_process.job_command("export", rest, sys.executable, ["spark-submit", "--master", "yarn"])
    assert command[:3] == ["spark-submit", "--master", "yarn"]
    assert Path(command[3]) == ROOT / "spark_jobs" / "herdpy_spark" / "jobs" / "export.py"


def test_a_process_reports_and_is_ended_with_all_its_children():
    program = (
        "import json, os, sys; print(os.environ['HERDPY_PASSWORD'], os.environ['MORE'], flush=True);"
        "json.dump({'lsn': '1:2', 'error': {'message': 'bad rows'}}, open(sys.argv[1], 'w')); sys.exit(1)"
    )
    lines: list[str] = []
    outcome = job_process.JobProcess().run(
        lambda report: [sys.executable, "-c", program, str(report)], "s3", {"MORE": "m"}, lines.append
    )
    assert (outcome.code, outcome.report["lsn"], outcome.message, lines) == (1, "1:2", "bad rows", ["s3 m"])

    child = "import time; print('child', flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    running = job_process.JobProcess()
    # The pipe ends when the child has ended, too: run() returns only then.
    ended = running.run(lambda _: [sys.executable, "-c", parent], None, {}, lambda _: running.stop())
    assert ended.code != 0
    assert ended.report == {}


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_only_the_modules_for_airflow_import_it():
    """The import contract of the component, by its sources: Airflow is not in this environment."""
    for path in sorted(PACKAGE.glob("*.py")):
        names = set(_imports(path))
        knows = {one for one in names if one.split(".")[0] == "airflow" or one == "herdpy_airflow.hooks"}
        assert bool(knows) == (path.stem not in WITHOUT_AIRFLOW), path.name
        assert not {one for one in names if one.split(".")[0] in ("herdpy_server", "herdpy_sql", "pyspark")}
    for root in ("herdpy", "server", "sql", "spark_jobs"):
        found = [p for p in (ROOT / root).rglob("*.py") if "herdpy_airflow" in "\n".join(_imports(p))]
        assert not found


def test_the_description_names_what_is_there():
    from herdpy_airflow.get_provider_info import get_provider_info

    info = json.loads(json.dumps(get_provider_info()))
    named = [info["connection-types"][0]["hook-class-name"].rpartition(".")[0]]
    named += [
        one
        for part in ("hooks", "operators", "sensors", "triggers")
        for one in info[part][0]["python-modules"]
    ]
    for module in named:
        assert (ROOT / "orchestration" / f"{module.replace('.', '/')}.py").is_file(), module
