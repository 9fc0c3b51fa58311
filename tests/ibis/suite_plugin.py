"""A pytest plugin for ibis' own suite of backends: its PostgreSQL backend on the database of this run.

    environment -> the backend's tables, made here -> ibis' tests -> one outcome a test, as JSON

The suite copies its files into a container and has the database read them there. Here tables come from
``suite_tables`` by COPY, so any database that speaks PostgreSQL's protocol will do. What the database refuses
while tables are made is written into the outcomes, and its tests fail by themselves.

``run.py`` sets IBIS_TEST_POSTGRES_*, which the suite reads too, and HERDPY_IBIS_OUTCOMES: a file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import psycopg
import pytest
from ibis.backends.postgres.tests.conftest import TestConf

from tests.ibis import suite_tables

_REFUSED: list[str] = []
_OUTCOMES: dict[str, str] = {}


def _connect() -> psycopg.Connection:
    return psycopg.connect(
        host=os.environ["IBIS_TEST_POSTGRES_HOST"],
        port=int(os.environ["IBIS_TEST_POSTGRES_PORT"]),
        user=os.environ["IBIS_TEST_POSTGRES_USER"],
        dbname=os.environ["IBIS_TEST_POSTGRES_DATABASE"],
        autocommit=True,
    )


def load(_: object, **__: object) -> None:
    """Make the suite's tables; what is refused is kept."""
    with _connect() as connection:
        for statement in suite_tables.STATEMENTS:
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                _REFUSED.append(f"{statement.split(chr(10))[0].strip()}: {error.sqlstate}")
        for table, rows in suite_tables.rows():
            try:
                with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
            except psycopg.errors.UndefinedTable:
                continue  # its CREATE TABLE was refused, which is kept already


TestConf.preload = lambda _: None
TestConf._load_data = load


def _outcome(report: pytest.TestReport) -> str | None:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.when == "call":
        return report.outcome
    if report.failed:
        return "error"
    return "skipped" if report.skipped else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep a test's outcome: that of its call, or of the phase that ended it."""
    found = _outcome(report)
    if found is not None:
        before = _OUTCOMES.get(report.nodeid)
        _OUTCOMES[report.nodeid] = "error" if before == "error" else found


def pytest_sessionfinish() -> None:
    """Write what was found."""
    found = {"refused": _REFUSED, "outcomes": dict(sorted(_OUTCOMES.items()))}
    Path(os.environ["HERDPY_IBIS_OUTCOMES"]).write_text(json.dumps(found, indent=1) + "\n")
