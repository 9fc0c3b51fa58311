"""What a coroutine of the engine waits for besides locks and the log: work outside the turn, and others'
turns.

Beside the locks, below ``sessions``. Who drives the coroutine does the work, or has it done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from typing import Any, TypeVar

from herdpy.log import Append
from herdpy.log.wait import Wait

T = TypeVar("T")


class Work(Wait[T]):
    """A call that is made by whoever waits for it: in the blocked thread, or in the loop's executor.

    The engine is free for others meanwhile: the call may only touch what is its own, such as a
    snapshot.
    """

    __slots__ = ("_call", "_threads")

    def __init__(self, call: Callable[[], T], threads: Executor | None = None) -> None:
        """``threads`` are those of a loop that waits; None: its own, which are few."""
        super().__init__()
        self._call = call
        self._threads = threads

    def _perform(self) -> None:
        try:
            self.resolve(self._call())
        except BaseException as error:  # noqa: BLE001 - handed to the coroutine that waits
            self.fail(error)

    def block(self, timeout_s: float | None = None) -> bool:
        self._perform()
        return True

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        super().add_done_callback(callback, context=context)
        asyncio.get_running_loop().run_in_executor(self._threads, self._perform)


class LastWait(Wait[object]):
    """A commit of its own that a statement waits for with nothing left to do but to answer.

    Whoever drives the statement may take it up again without the engine's turn.
    """

    __slots__ = ("_append",)

    def __init__(self, append: Append) -> None:
        super().__init__()
        self._append = append

    def done(self) -> bool:
        return self._append.done()

    def result(self) -> object:
        return self._append.result()

    def when_done(self, callback: Callable[[], object]) -> None:
        self._append.when_done(callback)

    def block(self, timeout_s: float | None = None) -> bool:
        return self._append.block(timeout_s)

    def __await__(self) -> Generator[Any, None, object]:
        if not self._append.done():
            self._asyncio_future_blocking = True
            yield self
        return self._append.result()


class Pause(Wait[None]):
    """Lets others have a turn in the middle of long work."""

    __slots__ = ()

    def block(self, timeout_s: float | None = None) -> bool:
        self.resolve(None)
        return True

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        asyncio.get_running_loop().call_soon(callback, self, context=context)
        self.resolve(None)
