"""The log of a loop: a thread that only writes, and everything else on the loop, in order."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from herdpy.log import LogClosedError, LogError, LogFullError, LogWriteError
from tests.log.conftest import Disk, Kit


class Loop:
    """A log on the running loop, what its hook was called with, and the order of what was resolved."""

    def __init__(self, acknowledge: Callable[[Any, Any], None] | None = None) -> None:
        self.disk = Disk()
        self.told: list[tuple[list[Any], LogError | None]] = []
        self.resolved: list[Any] = []
        self.threads: set[int] = set()
        self.log = Kit.open(self.disk, acknowledge or self.acknowledge, loop=asyncio.get_running_loop())

    def acknowledge(self, appends: Any, error: LogError | None) -> None:
        self.threads.add(threading.get_ident())
        assert not any(append.done() for append in appends)
        self.told.append((list(appends), error))

    def append(self, number: int) -> Any:
        append = self.log.append(Kit.transaction(number))
        append.when_done(lambda: self.resolved.append(append))
        append.when_done(lambda: self.threads.add(threading.get_ident()))
        return append

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.log.close)


class Held:
    """A disk operation that stands still until it is let go."""

    def __init__(self) -> None:
        self.entered = asyncio.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._go = threading.Semaphore(0)

    def __call__(self, path: str) -> None:
        self._loop.call_soon_threadsafe(self.entered.release)
        self._go.acquire()

    def let_go(self, times: int = 1) -> None:
        for _ in range(times):
            self._go.release()


async def errors_of(appends: list[Any]) -> list[str]:
    found = await asyncio.gather(*(_result(append) for append in appends), return_exceptions=True)
    return [type(one).__name__ for one in found]


async def _result(append: Any) -> Any:
    return await append


def test_all_is_told_on_the_loop_in_the_order_of_the_log(on_loop) -> None:
    async def main() -> None:
        loop = Loop()
        appends = []

        async def client(base: int) -> None:
            for number in range(20):
                append = loop.append(base * 100 + number)
                appends.append(append)
                await append

        await asyncio.gather(*(client(base) for base in range(16)))
        assert [one for group, _ in loop.told for one in group] == appends
        assert loop.resolved == appends
        assert loop.threads == {threading.get_ident()}
        assert len(loop.told) < len(appends), "what gathers is one group"
        found = Kit.numbers(loop.log)
        assert found == [int(one.transaction.records[0].row.strip(b"_")) for one in appends]
        await loop.close()

    on_loop(main)


def test_a_pass_of_the_loop_is_one_group(on_loop) -> None:
    async def main() -> None:
        loop = Loop()
        appends = []
        for number in range(10):
            appends.append(loop.append(number))
            time.sleep(0.001)  # a flusher that were woken already would go ahead now
        await asyncio.gather(*map(_result, appends))
        assert [len(group) for group, _ in loop.told] == [10]
        assert len({append.result() for append in appends}) == 1
        await loop.close()

    on_loop(main)


def test_the_next_group_is_written_while_the_loop_is_busy(on_loop) -> None:
    async def main() -> None:
        loop = Loop()
        await _result(loop.append(0))
        loop.disk.fail["fdatasync"] = held = Held()
        first = loop.append(1)
        await held.entered.acquire()
        second = loop.append(2)
        written = threading.Event()
        loop.disk.fail["fdatasync"] = lambda _path: written.set()
        held.let_go()
        assert written.wait(60), "without the loop, which stands still here"
        assert not first.done()
        assert not second.done()
        await asyncio.gather(_result(first), _result(second))
        await loop.close()

    on_loop(main)


@pytest.mark.parametrize(("fault", "kind"), [(errno.ENOSPC, LogFullError), (errno.EIO, LogWriteError)])
@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_failed_group_fails_all_behind_it_and_nothing_after(on_loop, operation, fault, kind) -> None:
    async def main() -> None:
        loop = Loop()
        await _result(loop.append(0))
        held = Held()

        def fail(path: str) -> None:
            held(path)
            raise OSError(fault, "injected")

        loop.disk.fail[operation] = fail
        doomed = [loop.append(1)]
        await held.entered.acquire()
        doomed += [loop.append(number) for number in (2, 3)]
        held.let_go()
        first, *behind = await asyncio.gather(*map(_result, doomed), return_exceptions=True)
        assert isinstance(first, kind)
        assert all(isinstance(one, LogWriteError | LogError) for one in behind)
        assert {one.outcome for one in (first, *behind)} == {"not done"}
        assert loop.resolved[1:] == doomed
        assert [len(group) for group, _ in loop.told] == [1, 1, 2]
        del loop.disk.fail[operation]
        await _result(loop.append(4))
        assert Kit.numbers(loop.log) == [0, 4]
        assert loop.threads == {threading.get_ident()}
        await loop.close()

    on_loop(main)


def test_what_is_appended_between_a_failure_and_the_word_of_it_fails_too(on_loop) -> None:
    """It was made while the failed change still showed, so it may build on it."""

    async def main() -> None:
        loop = Loop()
        failed = threading.Event()

        def fail(_path: str) -> None:
            failed.set()
            raise OSError(errno.ENOSPC, "injected")

        loop.disk.fail["pwrite"] = fail
        first = loop.append(1)
        await asyncio.sleep(0)  # the flusher is woken
        assert failed.wait(60)
        del loop.disk.fail["pwrite"]
        second = loop.append(2)  # the loop is not notified yet
        assert await errors_of([first, second]) == ["LogFullError", "LogFullError"]
        await _result(loop.append(3))
        assert Kit.numbers(loop.log) == [3]
        await loop.close()

    on_loop(main)


def test_when_the_state_machine_fails_nobody_waits_for_ever(tmp_path) -> None:
    told: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))

        def acknowledge(appends: Any, error: LogError | None) -> None:
            raise ZeroDivisionError

        loop = Loop(acknowledge)
        held = Held()
        loop.disk.fail["fdatasync"] = held
        first = loop.append(1)
        await held.entered.acquire()
        behind = loop.append(2)
        held.let_go(2)
        with pytest.raises(LogError) as unknown:
            await first
        assert unknown.value.outcome == "unknown"
        with pytest.raises(LogError):
            await behind
        with pytest.raises(LogClosedError):
            loop.append(3)
        await loop.close()

    asyncio.run(main())
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]


def test_when_the_flusher_fails_nobody_waits_for_ever(on_loop) -> None:
    async def main() -> None:
        loop = Loop()

        def fail(_group: Any) -> None:
            raise ZeroDivisionError

        loop.log._group._write = fail
        first, second = loop.append(1), loop.append(2)
        for append in (first, second):
            with pytest.raises(LogError) as unknown:
                await append
            assert unknown.value.outcome == "unknown"
        with pytest.raises(LogClosedError):
            loop.append(3)
        await loop.close()

    on_loop(main)


def test_threads_may_block_on_an_append(on_loop) -> None:
    async def main() -> None:
        loop = Loop()
        append = loop.log.append(Kit.transaction(1))  # nobody else waits for it
        executor = asyncio.get_running_loop().run_in_executor
        assert await executor(None, append.block, 60.0)
        assert append.done()
        loop.log.append(Kit.transaction(2))
        await executor(None, loop.log.flush)
        assert Kit.numbers(loop.log) == [1, 2]
        loop.log.append(Kit.transaction(3))
        await loop.close()  # flushes
        assert len(loop.told) == 3

    on_loop(main)


def test_a_loop_that_ends_first_leaves_no_thread() -> None:
    entered, go = threading.Event(), threading.Event()

    def hold(_path: str) -> None:
        entered.set()
        assert go.wait(60)

    async def main() -> Any:
        loop = Loop()
        loop.disk.fail["fdatasync"] = hold
        append = loop.append(1)
        await asyncio.sleep(0)
        assert entered.wait(60)
        return loop.log, append

    log, append = asyncio.run(main())
    thread = log._group._background
    go.set()
    thread.join(60)
    assert not thread.is_alive()
    with pytest.raises(LogError):
        append.result()
    log.close()
