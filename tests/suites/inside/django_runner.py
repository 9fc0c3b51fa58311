"""Django's runner, which writes a line of JSON a test into HERDPY_SUITE_OUTCOMES: what became of it."""

from __future__ import annotations

import json
import os
import traceback
import unittest
from typing import Any

from django.db.backends.postgresql.features import DatabaseFeatures
from django.db.backends.utils import CursorWrapper
from django.test.runner import DiscoverRunner


class _Outcomes(unittest.TextTestResult):
    """Writes a line for each test when it has ended: its name, its outcome, and the error's last lines."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._file = open(os.environ["HERDPY_SUITE_OUTCOMES"], "a", buffering=1)  # noqa: SIM115
        self._outcome = ("passed", "")

    def _write(self, test: str, outcome: str, message: str) -> None:
        self._file.write(json.dumps([test, outcome, message]) + "\n")

    def _fails(self, test: unittest.TestCase, error: Any) -> None:
        lines = "".join(traceback.format_exception(*error))
        if isinstance(test, unittest.TestCase) or hasattr(test, "test_case"):
            self._outcome = ("failed", lines)
        else:  # a class or a module that could not be set up: its tests do not begin
            self._write(str(test), "failed", lines)

    def startTest(self, test: unittest.TestCase) -> None:
        self._outcome = ("passed", "")
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self._write(test.id(), *self._outcome)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._fails(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._fails(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fails(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._outcome = ("skipped", reason)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._outcome = ("failed", "it was to fail, and passed")


def _note_statements() -> None:
    """Have errors of the database say what statement they are of."""
    execute = CursorWrapper._execute

    def noting(self: CursorWrapper, sql: Any, params: Any, *more: Any) -> Any:
        try:
            return execute(self, sql, params, *more)
        except Exception as error:
            error.add_note(f"SQL: {sql} with {params}")
            raise

    CursorWrapper._execute = noting


class Runner(DiscoverRunner):
    """Django's runner, with outcomes written down."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        _note_statements()
        changed = json.loads(os.environ["HERDPY_SUITE_COLLATIONS"])
        DatabaseFeatures.test_collations = {**DatabaseFeatures.test_collations, **changed}

    def get_resultclass(self) -> type[unittest.TextTestResult]:
        return _Outcomes
