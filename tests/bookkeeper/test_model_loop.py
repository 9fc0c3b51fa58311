"""The virtual-time loop: time without waiting, ends that are reported, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from herdpy.testing.model.loop import DeadlockError, TimeLimitError, UnhandledError, VirtualLoop


def test_hours_pass_at_once() -> None:
    async def program() -> float:
        await asyncio.sleep(3 * 3600)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert VirtualLoop(1).run(program()) == pytest.approx(3 * 3600)
    assert time.monotonic() - began < 60


def test_timers_fire_in_order_of_their_times() -> None:
    seen: list[str] = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(2, seen.append, "second")
        loop.call_later(1, seen.append, "first")
        loop.call_soon_threadsafe(seen.append, "now")
        await asyncio.sleep(3)

    VirtualLoop(1).run(program())
    assert seen == ["now", "first", "second"]


def test_a_wait_for_nothing_is_a_deadlock() -> None:
    async def program() -> None:
        await asyncio.sleep(5)
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError, match=r"5\.0"):
        VirtualLoop(1).run(program())


def test_virtual_time_has_a_limit() -> None:
    async def program() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(TimeLimitError, match="100"):
        VirtualLoop(1, limit_s=100).run(program())


def test_tasks_left_running_are_named_and_cancelled() -> None:
    ended = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append(True)

    async def program() -> None:
        program.task = asyncio.create_task(forgotten(), name="forgotten")  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    loop = VirtualLoop(1)
    loop.run(program())
    assert ended == [True]
    assert [name.split(":")[0] for name in loop.leaked] == ["forgotten"]
    assert loop.is_closed()


def test_an_exception_in_a_callback_ends_in_the_caller() -> None:
    async def program() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(UnhandledError, match="ZeroDivisionError"):
        VirtualLoop(1).run(program())


def test_threads_are_refused() -> None:
    async def program() -> None:
        await asyncio.to_thread(threading.get_ident)

    with pytest.raises(NotImplementedError, match="threads"):
        VirtualLoop(1).run(program())
