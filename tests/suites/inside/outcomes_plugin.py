"""A pytest plugin for clients' suites: what became of each test, and why, as JSON.

It is loaded as a top-level module in the environment of a client, whose own tests are a package named
``tests``: it imports nothing of this one. ``HERDPY_SUITE_OUTCOMES`` names the file that it writes.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

_FOUND: dict[str, list[str]] = {}
"""By the id of a test: its outcome, and the error, whose message comes last."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give each test random numbers of its own, so that every run has the same."""
    random.seed(item.nodeid)


def _outcome(report: pytest.TestReport) -> str | None:
    if hasattr(report, "wasxfail"):
        return "skipped" if report.skipped else "failed"
    if report.failed:
        return "failed"
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else None


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    first = crash.message.partition("\n")[0] if crash else ""
    return f"{report.longreprtext[-3000:]}\n{first}".strip()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep a test's outcome: that of its call, or of the phase that ended it; a failure stays."""
    outcome = _outcome(report)
    before = _FOUND.get(report.nodeid, [""])[0]
    if outcome is not None and before != "failed":
        _FOUND[report.nodeid] = [outcome, "" if outcome == "passed" else _reason(report)]


def pytest_sessionfinish() -> None:
    """Write what was found."""
    Path(os.environ["HERDPY_SUITE_OUTCOMES"]).write_text(json.dumps(_FOUND, indent=1, sort_keys=True) + "\n")
