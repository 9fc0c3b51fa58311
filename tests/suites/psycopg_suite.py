"""psycopg 3's own tests, those that it does not mark as slow, timing or flakey."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.suites import sources
from tests.suites.clients import Client

CLIENT = Client(
    name="psycopg",
    install=("psycopg", "psycopg_pool"),
    options=("-m", "not slow and not timing and not flakey"),
    settings={
        "PSYCOPG_TEST_DSN": "host={host} port={port} user=postgres dbname=postgres",
        "PSYCOPG_IMPL": "python",
    },
)


def play(files: Sequence[str], found: Path, *, again: bool) -> None:
    """Run files of tests on both servers; `again` takes PostgreSQL's outcomes of the last run."""
    CLIENT.play(sources.psycopg(), files, found, again=again)
