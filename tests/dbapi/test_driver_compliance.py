"""The public PEP 249 compliance suite, both copies of it, against a directory and against a server."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import herdpy
from tests.dbapi.dbapi20_copies import of_psycopg2
from tests.pgwire.servers import thread_server

dbapi20 = pytest.importorskip("dbapi20")

LEFT_OUT = {
    "test_callproc": "there are no procedures: test_driver_pep249 has the error",
    "test_non_idempotent_close": "closing twice is allowed, as in every driver of today",
    "test_nextset": "is a method for the driver's author to write: below",
    "test_setoutputsize": "is a method for the driver's author to write: test_driver_pep249 has it",
}
"""Tests of the suite that are none for this driver, and why."""


@pytest.fixture(scope="module")
def newer() -> ModuleType:
    """The copy of psycopg2's source distribution."""
    return of_psycopg2()


@pytest.fixture(scope="module", params=["directory", "server"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the driver connects to."""
    directory = tmp_path_factory.mktemp("compliance") / "db"
    if request.param == "directory":
        yield f"herdpy://{directory}"
        return
    with thread_server(directory) as server:
        yield f"herdpy://herdpy@127.0.0.1:{server.port}/herdpy"


def _names(suite: Any) -> list[str]:
    return sorted(name for name in dir(suite) if name.startswith("test") and name not in LEFT_OUT)


NAMES = _names(dbapi20.DatabaseAPI20Test)


def _run(suite: Any, name: str, address: str) -> list[str]:
    """Run one test of a suite; what it found wrong."""
    connections: list[Any] = []

    class Compliance(suite):  # type: ignore[misc]
        driver = herdpy
        connect_args = (address,)

        def _connect(self) -> Any:
            connections.append(super()._connect())
            return connections[-1]

    result = unittest.TestResult()
    try:
        Compliance(name).run(result)
    finally:
        for connection in connections:  # some of its tests forget them
            connection.close()
    assert (result.testsRun, result.skipped) == (1, [])
    return [text for _, text in (*result.failures, *result.errors)]


@pytest.mark.parametrize("name", NAMES)
def test_suite_of_pypi(name: str, address: str) -> None:
    assert _run(dbapi20.DatabaseAPI20Test, name, address) == []


@pytest.mark.filterwarnings("ignore:Please use assert:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_suite_of_psycopg2(name: str, address: str, newer: ModuleType) -> None:
    assert _run(newer.DatabaseAPI20Test, name, address) == []


def test_the_copies_have_the_same_tests(newer: ModuleType) -> None:
    assert set(_names(newer.DatabaseAPI20Test)) <= set(NAMES)


def test_nextset(address: str) -> None:
    with herdpy.connect(address) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT 1; SELECT 2")
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset()
        assert cursor.fetchall() == [(2,)]
        assert not cursor.nextset()
