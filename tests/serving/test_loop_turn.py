"""The turn of a loop: free on it, and for other threads a hand-shake that makes it stand still."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import pytest

from herdpy_server.serving import LoopTurn, driver

STEPS = 200


class Shared:
    """Two numbers that are equal whenever anybody else may look."""

    def __init__(self) -> None:
        self.left = self.right = 0

    def change(self, between: Callable[[], object]) -> None:
        self.left += 1
        between()
        self.right += 1


async def race(turn: AbstractContextManager[object]) -> int:
    """How often the loop saw the numbers differ while other threads changed them in their turn."""
    shared, loop, torn = Shared(), asyncio.get_running_loop(), 0
    looked = threading.Semaphore(0)

    def work() -> None:
        for _ in range(STEPS):
            with turn:
                # The loop has every opportunity to look in between, unless it stands still.
                shared.change(lambda: looked.acquire(timeout=0.0005))

    workers = [loop.run_in_executor(None, work) for _ in range(3)]
    while not all(worker.done() for worker in workers):
        with turn:
            torn += shared.left != shared.right
        looked.release()
        await asyncio.sleep(0)
    await asyncio.gather(*workers)
    if not torn:
        assert shared.left == shared.right == 3 * STEPS
    return torn


def test_the_loop_stands_still_while_a_thread_has_the_turn(on_loop) -> None:
    async def main() -> int:
        return await race(LoopTurn(asyncio.get_running_loop()))

    assert on_loop(main) == 0


def test_without_the_turn_the_loop_looks_in_between(on_loop) -> None:
    """What the test above would see if the turn did nothing."""

    async def main() -> int:
        return await race(nullcontext())

    assert on_loop(main) > 0


def test_an_error_in_the_block_gives_the_turn_back(on_loop) -> None:
    async def main() -> None:
        turn, loop = LoopTurn(asyncio.get_running_loop()), asyncio.get_running_loop()

        def fail() -> None:
            with turn:
                raise ZeroDivisionError

        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await loop.run_in_executor(None, fail)
        with turn, turn:  # on the loop it may be entered again
            pass

    on_loop(main)


def test_a_closed_loop_has_no_turn() -> None:
    async def main() -> LoopTurn:
        return LoopTurn(asyncio.get_running_loop())

    turn = asyncio.run(main())
    errors = []

    def enter() -> None:
        for _ in range(2):
            try:
                with turn:
                    pass
            except RuntimeError as error:
                errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(errors) == 2


def test_a_thread_that_waits_when_the_loop_is_closed_has_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_LOOK_AT_LOOP_S", 0.01)
    loop = asyncio.new_event_loop()
    turn, asked = LoopTurn(loop), threading.Event()
    call = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: (call(*args), asked.set()))

    def enter() -> None:
        with pytest.raises(RuntimeError, match="closed"), turn:
            pass

    with ThreadPoolExecutor(1) as threads:
        for _ in range(2):
            waits = threads.submit(enter)
            assert asked.wait(60)
            loop.close()
            waits.result(60)
