"""Waits: threads block on them, tasks await them, coroutines run without a loop."""

import asyncio
import signal
import threading

import pytest

from herdpy.log.wait import OwnWait, Wait, run_blocking


async def _twice(wait):
    return await wait, await wait


def test_a_thread_blocks_until_another_resolves():
    wait = Wait()
    assert not wait.block(0)
    threads = [threading.Thread(target=wait.block) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait.resolve(5)
    for thread in threads:
        thread.join()
    assert wait.done()
    assert wait.block(0)
    assert wait.result() == 5


def test_only_the_first_result_counts():
    wait = Wait()
    wait.resolve(1)
    wait.resolve(2)
    wait.fail(ValueError())
    assert wait.result() == 1


def test_callbacks_run_once_in_order_and_at_once_when_done():
    wait, seen = Wait(), []
    wait.when_done(lambda: seen.append("a"))
    wait.when_done(lambda: seen.append("b"))
    assert seen == []
    wait.resolve(None)
    wait.when_done(lambda: seen.append("c"))
    assert seen == ["a", "b", "c"]


def test_run_blocking_drives_a_coroutine_through_a_thread():
    wait = Wait()
    thread = threading.Thread(target=wait.resolve, args=(7,))
    thread.start()
    assert run_blocking(_twice(wait)) == (7, 7)
    thread.join()


def test_run_blocking_raises_the_error_at_the_await():
    wait = Wait()
    wait.fail(KeyError("x"))

    async def catch():
        try:
            await wait
        except KeyError as error:
            return error.args[0]

    assert run_blocking(catch()) == "x"


def test_an_interrupt_while_blocking_reaches_the_coroutine():
    class Interrupted(Wait):
        def block(self, timeout_s=None):
            raise KeyboardInterrupt

    cleaned = []

    async def work():
        try:
            await Interrupted()
        finally:
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_blocking(work())
    assert cleaned == [True]


def test_tasks_of_several_loops_and_a_thread_share_one_wait():
    wait, results = Wait(), []
    blocked = threading.Barrier(4)

    def loop():
        async def main():
            task = asyncio.ensure_future(_twice(wait))
            await asyncio.sleep(0)
            blocked.wait()
            return await task

        results.append(asyncio.run(main()))

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    blocked.wait()
    wait.resolve(3)
    for thread in threads:
        thread.join()
    assert results == [(3, 3)] * 3


def test_an_error_is_raised_in_the_task():
    async def main():
        wait = Wait()
        asyncio.get_running_loop().call_soon(wait.fail, ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await wait

    asyncio.run(main())


def test_a_task_that_awaits_a_shared_wait_is_cancelled_when_it_is_done():
    async def main():
        wait = Wait()
        task = asyncio.ensure_future(_twice(wait))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        wait.resolve(1)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_an_own_wait_is_cancelled_at_once():
    async def main():
        wait = OwnWait()
        task = asyncio.ensure_future(_twice(wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        wait.resolve(1)  # too late, and no harm

    asyncio.run(main())


def test_a_result_for_a_closed_loop_is_dropped():
    wait = Wait()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_twice(wait))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    task._log_destroy_pending = False
    loop.close()
    wait.resolve(1)
    assert wait.result() == 1
    del task


def test_a_signal_that_does_not_wake_the_kernels_wait_is_still_seen():
    """Python's handler runs in the main thread; here the signal reaches another thread of the process.

    That leaves just the mark, as a signal does that arrives right before the thread begins to wait.
    """
    wait: Wait[None] = Wait()
    waiting = threading.Event()

    class Gate:
        """A gate that tells when somebody is about to wait at it."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._lock.acquire()

        def acquire(self, timeout: float) -> bool:
            waiting.set()
            return self._lock.acquire(timeout=timeout)

        def release(self) -> None:
            self._lock.release()

    wait._gate = Gate()  # type: ignore[assignment]

    def interrupt():
        waiting.wait()
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait.block()
    finally:
        thread.join()
