"""What Spark's UI shows of a job: its steps by name, of its own jobs alone."""

from __future__ import annotations

import json

import pytest

import herdpy
from herdpy_spark.jobs.__main__ import run as run_job

pytestmark = pytest.mark.timeout(900)


def descriptions(spark) -> list[str | None]:
    """Of all jobs of the session so far, in their order, by what its UI shows."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(at) for at in range(jobs.length())]
    ordered = sorted(found, key=lambda job: job.jobId())
    return [job.description().get() if job.description().isDefined() else None for job in ordered]


def test_jobs_of_spark_have_the_names_of_steps(spark, tmp_path, capsys):
    url = f"herdpy://{tmp_path / 'db'}"
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO orders VALUES (1), (2)")
    before = len(descriptions(spark))
    export = ["--url", url, "--table", "orders", "--to", str(tmp_path / "export")]
    report = tmp_path / "report.json"
    assert run_job(["export", *export, "--report", str(report)]) == 0, capsys.readouterr().err
    at = json.loads(report.read_text())["lsn"]
    assert run_job(["verify", "--url", url, "--export", str(tmp_path / "export")]) == 0
    spark.range(3).count()
    named = list(dict.fromkeys(descriptions(spark)[before:]))
    title = f"herdpy verify of {tmp_path / 'export'}"
    assert named == [
        "herdpy export of orders: write the files",
        "herdpy export of orders: read the files again",
        f"{title}: read the files",
        f"{title}: read the table at {at}",
        None,
    ]
