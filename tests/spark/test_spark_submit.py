"""The jobs as programs of their own: by spark-submit, on a local and on a standalone master, and over JDBC.

Submitted jobs run where HerdPy is not installed: they have it from a wheel in ``--py-files``, as the page
says. Each is another JVM, so these take a minute or so together.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from herdpy.testing.java import pgjdbc_jars
from herdpy_spark.jobs.exporting import export_files
from tests.server.pgjdbc import door_to
from tests.spark.conftest import QUICK_JAVA, SLOW
from tests.spark.standalone import SPARK, Standalone, spark_environment

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PATIENCE_S = 900.0
JAVA = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


def done(command, place, **environment):
    """Run a program that must succeed; what it printed."""
    ran = subprocess.run(
        [str(one) for one in command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
        timeout=PATIENCE_S,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with all packages that HerdPy needs, and without HerdPy."""
    directory = tmp_path_factory.mktemp("python")
    venv.create(directory, symlinks=True, with_pip=False)
    (site,) = directory.glob("lib/python*/site-packages")
    for entry in SPARK.parent.iterdir():
        if "herdpy" not in entry.name:
            (site / entry.name).symlink_to(entry)
    found = directory / "bin/python"
    tried = subprocess.run(
        [found, "-c", "import herdpy"],
        env=spark_environment(),
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
    )
    assert "No module named 'herdpy'" in tried.stderr
    return found


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """HerdPy's wheel under a name that ``--py-files`` takes."""
    directory = tmp_path_factory.mktemp("dist")
    done([BIN / "uv", "build", "-q", "--wheel", "--out-dir", directory, ROOT], directory, **os.environ)
    (wheel,) = directory.glob("*.whl")
    return shutil.copy(wheel, directory / "herdpy.zip")


@pytest.fixture
def submit(cluster, python, package, tmp_path):
    """``submit("export", ..., master=...)``: the report of a job."""

    def run(name, *argv, master="local[2]"):
        script = done([sys.executable, "-m", "herdpy_spark.jobs", "--path", name], tmp_path, **os.environ)
        report = tmp_path / "report.json"
        settings = {
            "spark.pyspark.python": python,
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "768m",
            "spark.network.timeout": "3600s",
            "spark.task.maxFailures": "20",
            "spark.ui.enabled": "false",
            **dict.fromkeys(JAVA, QUICK_JAVA),
        }
        conf = [word for each in settings.items() for word in ("--conf", "{}={}".format(*each))]
        spark = (SPARK / "bin/spark-submit", "--master", master, "--py-files", package, *conf)
        command = [*spark, script.strip(), "--url", cluster.url, *argv, "--report", report]
        while True:
            try:
                done(command, tmp_path, **spark_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"})
            except AssertionError as error:
                if SLOW not in str(error):
                    raise
            else:
                return json.loads(report.read_text())

    return run


def test_every_job_is_submitted(submit, sql, spark, new_name, tmp_path):
    table = new_name("submitted")
    source = tmp_path / "rows.csv"
    source.write_text("id,v\n" + "".join(f"{n},v{n}\n" for n in range(200)))
    loaded = submit("bulk-load", "--table", table, "--create", "--key", "id", "--load-id", table, source)
    assert loaded["inserted"] == 200
    assert sql(f"SELECT count(*), sum(id), max(v) FROM {table}") == [(200, 199 * 100, "v99")]
    changed = submit("changes", "--table", table, "--format", "json", "--to", "feed", "--available-now")
    assert changed["changes"] == 201  # the table's making, too
    with Standalone(tmp_path / "spark", workers=2) as cluster:
        export = ("--table", table, "--to", "export", "--from", "log", "--partitions", "4")
        assert submit("export", *export, master=cluster.master)["rows"] == 200
    assert submit("verify", "--export", "export", "--latest")["status"] == "done"
    stored = spark.read.parquet(*export_files(str(tmp_path / "export")))
    assert {tuple(row) for row in stored.collect()} == {(n, f"v{n}") for n in range(200)}
    assert submit("archive", "--to", "archive")["ledgers"]


def test_a_table_behind_jdbc_is_created_and_loaded(cluster, sql, postgres, new_name, tmp_path):
    table = new_name("from_jdbc")
    host = dict(part.split("=") for part in postgres.split())["host"]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {table}")
    with psycopg.connect(postgres, dbname=table) as connection:
        connection.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, big BIGINT, n NUMERIC(12,3), d DOUBLE PRECISION, t TEXT,"
            " v VARCHAR(9), b BOOLEAN, bytes BYTEA, day DATE, at TIMESTAMPTZ, plain TIMESTAMP)"
        )
        connection.execute(
            "INSERT INTO t SELECT g, g * 10000000000, g / 8.0, g / 3.0, 'text ' || g, 'v' || g, g % 2 = 0,"
            " decode(lpad(to_hex(g), 8, '0'), 'hex'), DATE '2026-01-01' + g, TIMESTAMPTZ '2026-01-01' + g *"
            " INTERVAL '1 hour 1 microsecond', TIMESTAMP '2026-01-01' + g * INTERVAL '1 minute'"
            " FROM generate_series(1, 500) g"
        )
        connection.execute("INSERT INTO t (id) VALUES (0)")
        connection.commit()
        wanted = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
        user = connection.info.user
    (jar,) = pgjdbc_jars().glob("postgresql-*.jar")
    with door_to(f"{host}/.s.PGSQL.5432") as port:
        split = {"partitionColumn": "id", "lowerBound": 0, "upperBound": 500, "numPartitions": 3}
        split |= {"user": user, "preferTimestampNTZ": "true"}
        options = [word for each in split.items() for word in ("--option", "{}={}".format(*each))]
        to = ("--url", cluster.url, "--table", table, "--create", "--key", "id")
        source = ("--jdbc-url", f"jdbc:postgresql://127.0.0.1:{port}/{table}", "--jdbc-table", "t", *options)
        spark = ("--jars", jar, "--master", "local[2]", "--conf", f"{JAVA[0]}={QUICK_JAVA}")
        done(
            [BIN / "herdpy", "spark", "bulk-load", *to, *source, *spark],
            tmp_path,
            **os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        )
    assert sql(f"SELECT * FROM {table} ORDER BY id") == wanted
    types = dict(
        sql(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s",
            (table,),
        )
    )
    assert types["n"] == "numeric"
    assert types["at"] == "timestamp with time zone"
    assert types["plain"] == "timestamp without time zone"
    assert wanted[1][2] == Decimal("0.125")
