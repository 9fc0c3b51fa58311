"""The blocking driver's tests, of an asynchronous connection: one face, one behaviour.

Taken are those tests of these modules that get their connection from a fixture, and their fixtures.
"""

from __future__ import annotations

import inspect

from _pytest.fixtures import FixtureFunctionDefinition

from tests.dbapi import (
    test_driver_errors,
    test_driver_parameters,
    test_driver_pep249,
    test_driver_rows,
    test_server_cursors,
)

MODULES = (
    test_driver_errors,
    test_driver_parameters,
    test_driver_pep249,
    test_driver_rows,
    test_server_cursors,
)
CONNECTIONS = {"conn", "auto"}
OTHERWISE = {"url", "path", "shared", "monkeypatch", "request"}
NOT_HERE = {
    "test_arrow_batch_by_batch": "batches are awaited, so what comes is no RecordBatchReader",
    "test_a_stream_makes_no_more_rows_than_are_read": "what is below is the blocking driver's",
    "test_nothing_grows_while_a_million_rows_pass": "as above",
    "test_cancelled_from_another_thread": "test_aio_cancel.py has it",
}
"""Tests of what is otherwise here, and why."""


def _taken() -> dict[str, object]:
    found: dict[str, object] = {}
    for module in MODULES:
        for name, value in vars(module).items():
            if isinstance(value, FixtureFunctionDefinition):
                assert name not in found, f"two fixtures are called {name}"
                found[name] = value
            elif name.startswith("test_") and inspect.isfunction(value):
                parameters = inspect.signature(value).parameters.keys()
                if CONNECTIONS & parameters and not OTHERWISE & parameters and name not in NOT_HERE:
                    assert name not in found, f"two tests are called {name}"
                    found[name] = value
    return found


globals().update(_taken())


def test_as_many_as_there_were():
    assert sum(name.startswith("test_") for name in _taken()) > 40
