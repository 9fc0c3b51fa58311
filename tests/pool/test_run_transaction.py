"""run_transaction on connections and pools, blocking and awaited: how often, and what is not tried again."""

from __future__ import annotations

import asyncio

import pytest

import herdpy
from herdpy import aio


def unlucky(times: int, **said):
    """A function that fails so often before it succeeds, and a list of its calls."""
    calls: list[int] = []

    def work(_conn) -> str:
        calls.append(1)
        if len(calls) <= times:
            raise herdpy.OperationalError("bad luck", **{"sqlstate": "40001", "retryable": True, **said})
        return "done"

    return work, calls


def on_pool(path, work, **options):
    with herdpy.Pool(path) as pool:
        return herdpy.run_transaction(pool, work, **options)


def on_connection(path, work, **options):
    with herdpy.connect(path, autocommit=True) as conn:
        return herdpy.run_transaction(conn, work, **options)


def awaited(path, work, *, pooled: bool, **options):
    async def awaitable(conn):
        return work(conn)

    async def main():
        async with aio.AsyncPool(path) if pooled else aio.connect(path) as where:
            return await aio.run_transaction(where, awaitable, **options)

    return asyncio.run(main())


def in_a_task(path, work, **options):
    return awaited(path, work, pooled=False, **options)


def in_a_task_on_a_pool(path, work, **options):
    return awaited(path, work, pooled=True, **options)


@pytest.fixture(params=[on_connection, on_pool, in_a_task, in_a_task_on_a_pool], ids=lambda one: one.__name__)
def run(request, tmp_path):
    return lambda work, **options: request.param(tmp_path / "db", work, **options)


def test_again_until_it_is_done(run):
    work, calls = unlucky(2)
    assert run(work) == "done"
    assert len(calls) == 3


def test_only_so_often(run):
    work, calls = unlucky(5)
    with pytest.raises(herdpy.OperationalError):
        run(work, attempts=3)
    assert len(calls) == 3
    for wrong in (0, 1.5):
        with pytest.raises(herdpy.ProgrammingError) as caught:
            run(work, attempts=wrong)
        assert caught.value.sqlstate == "22023"


@pytest.mark.parametrize("said", [{"outcome": "unknown"}, {"outcome": "done"}, {"retryable": False}])
def test_what_may_have_happened_is_not_done_again(run, said):
    work, calls = unlucky(5, **said)
    with pytest.raises(herdpy.OperationalError):
        run(work)
    assert len(calls) == 1
