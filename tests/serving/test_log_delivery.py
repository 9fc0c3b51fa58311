"""The log of a loop: a thread only writes, or the loop itself while the disk is quick; all is in order."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from herdpy.log import LogClosedError, LogError, LogFullError, LogWriteError, file_log
from herdpy.log.group_commit import PASSES
from herdpy.log.write_place import FEWEST, WritePlace
from tests.log.conftest import Disk, Kit


class Loop:
    """A log on the running loop, what its hook was called with, and the order of what was resolved."""

    def __init__(self, acknowledge: Callable[[Any, Any], None] | None = None, **settings: Any) -> None:
        self.disk = Disk()
        self.acknowledged: list[tuple[list[Any], LogError | None]] = []
        self.resolved: list[Any] = []
        self.threads: set[int] = set()
        self.log = Kit.open(
            self.disk, acknowledge or self.acknowledge, loop=asyncio.get_running_loop(), settings=settings
        )

    def acknowledge(self, appends: Any, error: LogError | None) -> None:
        self.threads.add(threading.get_ident())
        assert not any(append.done() for append in appends)
        self.acknowledged.append((list(appends), error))

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
        assert [one for group, _ in loop.acknowledged for one in group] == appends
        assert loop.resolved == appends
        assert loop.threads == {threading.get_ident()}
        assert len(loop.acknowledged) < len(appends), "what gathers is one group"
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
        assert [len(group) for group, _ in loop.acknowledged] == [10]
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
        assert [len(group) for group, _ in loop.acknowledged] == [1, 1, 2]
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
        assert len(loop.acknowledged) == 3

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


# While the disk is quick: the loop writes.


class AlwaysQuick(WritePlace):
    """However long it takes here, where others compute too."""

    def __init__(self) -> None:
        super().__init__()
        self.on_loop = True

    def took(self, seconds: float) -> None:
        pass


class QuickLoop(Loop):
    """A log with a ledger that has room, whose disk was quick so far, and the threads that use the disk."""

    def __init__(self, acknowledge: Callable[[Any, Any], None] | None = None, **settings: Any) -> None:
        super().__init__(acknowledge, **{"preallocate_bytes": 1 << 20, **settings})
        self.used: list[tuple[str, bool]] = []
        do, here = self.disk._do, threading.get_ident()

        def note(operation: str, path: str) -> Any:
            self.used.append((operation, threading.get_ident() == here))
            return do(operation, path)

        self.disk._do = note  # type: ignore[method-assign]

    async def begun(self) -> QuickLoop:
        """Its first ledger is made, by the thread."""
        await _result(self.append(0))
        assert not any(is_here for _, is_here in self.used)
        while self.log._group.flushing:  # the thread looks whether there is more
            await asyncio.sleep(0)
        self.used.clear()
        self.log.write_place = AlwaysQuick()
        return self

    def by_loop(self, operation: str) -> list[bool]:
        return [is_here for what, is_here in self.used if what == operation]


def test_a_quick_disk_is_written_by_the_loop_in_the_order_of_the_log(on_loop) -> None:
    async def main() -> None:
        loop, appends = await QuickLoop().begun(), []

        async def client(base: int) -> None:
            for number in range(20):
                append = loop.append(base * 100 + number)
                appends.append(append)
                await append

        await asyncio.gather(*(client(base) for base in range(1, 9)))
        assert set(loop.by_loop("fdatasync")) == set(loop.by_loop("pwrite")) == {True}
        assert loop.resolved[1:] == appends
        groups = loop.acknowledged
        assert [one for group, _ in groups[1:] for one in group] == appends
        assert len(groups) < len(appends), "a pass of the loop is one group"
        assert Kit.numbers(loop.log)[1:] == [
            int(one.transaction.records[0].row.strip(b"_")) for one in appends
        ]
        await loop.close()

    on_loop(main)


class Passes:
    """Appends one more in each pass of the loop, so many times."""

    def __init__(self, loop: QuickLoop, count: int) -> None:
        self._loop, self._left = loop, count
        self.appends: list[Any] = []
        self.over = asyncio.Event()
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._left -= 1
        self.appends.append(self._loop.append(100 + len(self.appends)))
        if self._left:
            asyncio.get_running_loop().call_soon(self._next)
        else:
            self.over.set()


def test_a_group_of_the_loop_gathers_while_each_pass_brings_more(on_loop) -> None:
    async def main() -> None:
        loop = await QuickLoop().begun()
        appends = [loop.append(1), loop.append(2)]
        passes = Passes(loop, 3)
        await asyncio.gather(*map(_result, appends))
        assert [one for group, _ in loop.acknowledged[1:] for one in group] == [*appends, *passes.appends]
        assert [len(group) for group, _ in loop.acknowledged[1:]] == [5]
        await loop.close()

    on_loop(main)


def test_a_group_of_the_loop_gathers_for_some_passes_only(on_loop) -> None:
    async def main() -> None:
        loop = await QuickLoop().begun()
        first = [loop.append(1), loop.append(2)]
        passes = Passes(loop, 3 * PASSES)
        await _result(first[-1])
        assert len(loop.acknowledged[1][0]) == 2 + PASSES
        await passes.over.wait()
        await _result(passes.appends[-1])
        assert loop.resolved[1:] == [*first, *passes.appends]
        await loop.close()

    on_loop(main)


def test_a_commit_that_is_alone_waits_for_no_pass(on_loop) -> None:
    async def main() -> None:
        loop = await QuickLoop().begun()
        await _result(loop.append(1))
        alone = loop.append(2)
        passes = Passes(loop, 1)
        await asyncio.gather(*map(_result, [alone, *passes.appends]))
        await passes.over.wait()
        await asyncio.gather(*map(_result, passes.appends))
        assert [len(group) for group, _ in loop.acknowledged[1:]] == [1, 1, 1]
        await loop.close()

    on_loop(main)


def test_what_is_appended_while_the_loop_resolves_a_group_is_written_too(on_loop) -> None:
    async def main() -> None:
        loop = await QuickLoop().begun()
        first, later, over = loop.log.append(Kit.transaction(1)), [], asyncio.Event()

        def follow() -> None:
            if len(later) < 5:
                later.append(loop.log.append(Kit.transaction(2 + len(later))))
                later[-1].when_done(follow)
            else:
                over.set()

        first.when_done(follow)
        async with asyncio.timeout(60):
            await over.wait()
        assert Kit.numbers(loop.log) == list(range(7))
        assert set(loop.by_loop("fdatasync")) == {True}
        await loop.close()

    on_loop(main)


@pytest.mark.parametrize(("fault", "kind"), [(errno.ENOSPC, LogFullError), (errno.EIO, LogWriteError)])
@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_a_group_that_the_loop_cannot_write_fails_alone(on_loop, operation, fault, kind) -> None:
    async def main() -> None:
        loop = await QuickLoop().begun()
        loop.disk.fail[operation] = fault
        doomed = [loop.append(number) for number in (1, 2)]
        errors = await asyncio.gather(*map(_result, doomed), return_exceptions=True)
        assert all(isinstance(one, kind) for one in errors)
        assert {one.outcome for one in errors} == {"not done"}
        assert loop.by_loop(operation)[0]
        del loop.disk.fail[operation]
        await _result(loop.append(3))
        await _result(loop.append(4))
        assert Kit.numbers(loop.log) == [0, 3, 4]
        await loop.close()

    on_loop(main)


def test_when_the_state_machine_fails_after_the_loop_wrote_nobody_waits_for_ever() -> None:
    raised: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: raised.append(context))
        fails = False

        def acknowledge(_appends: Any, _error: LogError | None) -> None:
            if fails:
                raise ZeroDivisionError

        loop = await QuickLoop(acknowledge).begun()
        fails = True
        with pytest.raises(LogError) as unknown:
            await loop.append(1)
        assert unknown.value.outcome == "unknown"
        with pytest.raises(LogClosedError):
            loop.append(2)
        await loop.close()

    asyncio.run(main())
    assert [type(context["exception"]) for context in raised] == [ZeroDivisionError]


def test_an_interrupt_while_the_loop_writes_leaves_nobody_waiting() -> None:
    found: list[Any] = []

    async def main() -> None:
        loop = await QuickLoop().begun()
        found.append(loop)

        def interrupt(_path: str) -> None:
            del loop.disk.fail["pwrite"]
            raise KeyboardInterrupt

        loop.disk.fail["pwrite"] = interrupt
        found.append(loop.append(1))
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    loop, append = found
    with pytest.raises(LogError) as failed:
        append.result()
    assert failed.value.outcome == "not done"
    assert Kit.numbers(loop.log) == [0]
    loop.log.close()


def test_a_disk_that_becomes_slow_is_left_to_the_thread(on_loop, monkeypatch) -> None:
    async def main() -> None:
        loop, now_s = await QuickLoop().begun(), [0.0]
        monkeypatch.setattr(file_log, "perf_counter", lambda: now_s[0])
        place = loop.log.write_place = WritePlace()
        place.on_loop, place.average_s = True, 0.0
        await _result(loop.append(1))
        assert loop.by_loop("fdatasync") == [True]

        def stall(_path: str) -> None:
            now_s[0] += 0.02

        loop.disk.fail["fdatasync"] = stall
        await _result(loop.append(2))
        await _result(loop.append(3))
        del loop.disk.fail["fdatasync"]
        assert loop.by_loop("fdatasync") == [True, True, False]
        for number in range(4, 4 + 4 * FEWEST):
            await _result(loop.append(number))
        assert loop.by_loop("fdatasync")[-1], "it is quick again"
        assert Kit.numbers(loop.log) == list(range(4 + 4 * FEWEST))
        await loop.close()

    on_loop(main)


@pytest.mark.parametrize(
    ("operation", "settings"),
    [("create", {"max_ledger_bytes": 20_000}), ("allocate", {"preallocate_bytes": 16_384})],
)
def test_ledgers_and_space_are_made_by_the_thread(on_loop, operation, settings) -> None:
    async def main() -> None:
        loop = await QuickLoop(**settings).begun()
        for number in range(1, 300):
            await _result(loop.append(number))
        assert set(loop.by_loop(operation)) == {False}
        assert loop.by_loop("fdatasync").count(True) > 100
        assert Kit.numbers(loop.log) == list(range(300))
        await loop.close()

    on_loop(main)


def test_the_loop_does_not_wait_for_a_thread_that_changes_ledgers(on_loop) -> None:
    async def main() -> None:
        loop = await QuickLoop().begun()
        loop.disk.fail["replace"] = held = Held()  # the ledger list
        rolling = asyncio.get_running_loop().run_in_executor(None, loop.log.roll)
        await held.entered.acquire()
        append = loop.append(1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not append.done()
        del loop.disk.fail["replace"]
        held.let_go()
        await rolling
        await append
        assert Kit.numbers(loop.log) == [0, 1]
        await loop.close()

    on_loop(main)
