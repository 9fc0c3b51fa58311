"""asyncpg's own tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.suites import sources
from tests.suites.clients import Client

_RACES = ("19_concurrent_calls", "20_concurrent_calls")
"""They want a statement to be prepared within 10 ms."""
_DESELECTED = tuple(f"--deselect=tests/test_prepare.py::TestPrepare::test_prepare_{one}" for one in _RACES)
CLIENT = Client(
    name="asyncpg",
    install=(),
    options=("-p", "asyncpg_cleaning", "-c", os.devnull, "--import-mode=importlib", *_DESELECTED),
    settings={"PGHOST": "{host}", "PGPORT": "{port}", "PGUSER": "postgres", "PGDATABASE": "postgres"},
)


def play(files: Sequence[str], found: Path, *, again: bool) -> None:
    """Run files of tests on both servers; `again` takes PostgreSQL's outcomes of the last run."""
    CLIENT.play(sources.asyncpg(), files, found, again=again)
