"""A pytest plugin for asyncpg's tests: drop the tables that a test leaves behind when it fails.

Its tests make tables of few names and drop them at their ends. Where a test fails within a transaction, that
is rolled back, and each test after it fails for a table that is there already.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
_FAILED: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a failure; the tables go when its test has ended."""
    if report.failed:
        _FAILED.append(report.nodeid)


def pytest_runtest_logfinish() -> None:
    """Drop tables after a failure."""
    if _FAILED:
        _FAILED.clear()
        asyncio.run(_clean())


async def _clean() -> None:
    connection = await asyncpg.connect()
    try:
        for (name,) in await connection.fetch(_TABLES):
            await connection.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')
    finally:
        await connection.close()
