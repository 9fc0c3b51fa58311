"""Something that will happen: a commit made durable, a lock granted, a worker's answer.

The engine is written as coroutines without a transport. They ``await`` a :class:`Wait`, and who drives them
decides what that means: :func:`run_blocking` (a thread of an application) blocks until it is done, an asyncio
task (the server's loop) is resumed on its own loop. Results are set from any thread. :class:`Work` is done by
who waits for it, or in an executor of its loop; a :class:`Pause` only gives others their turn. This is the
lowest module that waits; it knows nothing of logs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, ClassVar, Generic, TypeVar

from mypy_extensions import mypyc_attr

T = TypeVar("T")

#: How often a blocked thread looks whether a signal came (see :func:`pass_gate`).
SIGNAL_CHECK_S = 0.5


@mypyc_attr(allow_interpreted_subclasses=True)
class Wait(Generic[T]):
    """A result that some thread sets once; awaited by coroutines, blocked on by threads.

    asyncio's tasks take it as a future (``_asyncio_future_blocking`` is the documented mark of a
    foreign one), so ``await wait`` works on any loop and under :func:`run_blocking` alike.
    """

    __slots__ = ("_asyncio_future_blocking", "_callbacks", "_done", "_error", "_gate", "_value")

    _guard: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._gate: threading.Lock | None = None
        self._callbacks: list[Callable[[], object]] | None = None
        self._asyncio_future_blocking = False

    def done(self) -> bool:
        """Whether the result, or the error, is there."""
        return self._done

    def resolve(self, value: T) -> None:
        """Set the result and wake whoever waits. Only the first call counts."""
        self._finish(value, None)

    def fail(self, error: BaseException) -> None:
        """Set the error that every waiter will get. Only the first call counts."""
        self._finish(None, error)

    def _finish(self, value: T | None, error: BaseException | None) -> None:
        with Wait._guard:
            if self._done:
                return
            self._value, self._error, self._done = value, error, True
            gate, callbacks = self._gate, self._callbacks
        if gate is not None:
            open_gate(gate)
        for callback in callbacks or ():
            callback()

    def result(self) -> T:
        """The value, once done; raises the error that was set."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` once done, in the thread that finishes it (now, if it is done)."""
        with Wait._guard:
            if not self._done:
                self._callbacks = [*(self._callbacks or ()), callback]
                return
        callback()

    def block(self, timeout_s: float | None = None) -> bool:
        """Block this thread until done; False when ``timeout_s`` passed first."""
        with Wait._guard:
            if self._done:
                return True
            if self._gate is None:
                self._gate = threading.Lock()
                self._gate.acquire()
            gate = self._gate
        if not pass_gate(gate, timeout_s):
            return False
        open_gate(gate)  # for the next thread that blocks on the same wait
        return True

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    # What asyncio asks of a future that a task waits for.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        loop = asyncio.get_running_loop()

        def resume() -> None:
            if asyncio._get_running_loop() is loop:
                loop.call_soon(callback, self, context=context)  # it need not be woken
                return
            try:
                loop.call_soon_threadsafe(callback, self, context=context)
            except RuntimeError:
                # The loop was closed meanwhile and its tasks with it: nobody waits any more.
                if not loop.is_closed():
                    raise

        self.when_done(resume)

    def remove_done_callback(self, callback: Callable[[Any], object]) -> int:
        return 0

    def cancel(self, msg: Any = None) -> bool:
        """A wait cannot be called off: the task that waits is cancelled when it is done."""
        return False


def pass_gate(gate: threading.Lock, timeout_s: float | None) -> bool:
    """Block this thread at a gate; False when ``timeout_s`` passed first.

    A signal that arrives after the interpreter's last look and before the kernel's wait leaves only
    a mark. So the wait is taken up again now and then, or Ctrl-C in that window would be lost.
    """
    if timeout_s is None:
        while not gate.acquire(timeout=SIGNAL_CHECK_S):
            pass
        return True
    deadline_s = time.monotonic() + timeout_s
    while not gate.acquire(timeout=max(0.0, min(SIGNAL_CHECK_S, deadline_s - time.monotonic()))):
        if time.monotonic() >= deadline_s:
            return False
    return True


def open_gate(gate: threading.Lock) -> None:
    """Let one thread through; an open gate stays open."""
    try:
        gate.release()
    except RuntimeError:
        pass


class OwnWait(Wait[T]):
    """A wait that one waiter alone holds, so that it may be called off.

    A task cancelled while it awaits one is cancelled at once, not when something happens.
    """

    __slots__ = ()

    def cancel(self, msg: Any = None) -> bool:
        self.fail(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True


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


@mypyc_attr(allow_interpreted_subclasses=True)
class Pause(Wait[None]):
    """Lets others have a turn in the middle of long work."""

    __slots__ = ()

    def block(self, timeout_s: float | None = None) -> bool:
        self.resolve(None)
        return True

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        asyncio.get_running_loop().call_soon(callback, self, context=context)
        self.resolve(None)


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run an engine coroutine to its end in this thread, blocking at each :class:`Wait`.

    What interrupts the blocking (KeyboardInterrupt) is raised inside the coroutine, at its await.
    """
    try:
        wait: Wait[Any] = coroutine.send(None)
        while True:
            try:
                wait.block()
            except BaseException as error:  # noqa: BLE001 - it goes on inside the coroutine
                wait = coroutine.throw(error)
            else:
                wait = coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
