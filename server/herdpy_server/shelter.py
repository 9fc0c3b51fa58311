"""A thread in which no signal's exception can come. Below ``embedded``.

Python runs signal handlers in the main thread, between any two steps of whatever that does: Ctrl-C, an alarm
or SystemExit may strike after a ledger list was replaced and before memory knows. So what changes a log or
a store is not done in the main thread: it hands a call over to this thread and waits for it. Whoever
waits may be interrupted; the work goes on to an end that leaves everything in order.

Other threads need no shelter. One thread is enough: the main thread does one thing at a time. It starts with
the first call, and ends with the last database.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, TypeVar

from herdpy.log.wait import open_gate, pass_gate

T = TypeVar("T")

_GIVE_UP_AGAIN_S = 0.05
_STILL_THERE_S = 1.0
_here = threading.local()  # .call: what this thread carries out, where it is a shelter


class ShelteredCall(Generic[T]):
    """Work that was handed over.

    Attributes:
        done: whether it has ended, with ``value`` or with ``error``.
        interrupt: what struck who waits for it; None while nothing has.
    """

    __slots__ = (
        "_answered",
        "_gate",
        "_is_left",
        "_state",
        "_taken",
        "_undo",
        "_wanted",
        "_work",
        "done",
        "error",
        "interrupt",
        "value",
    )

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._taken = self._is_left = self.done = False
        self.value: T | None = None
        self.error: BaseException | None = None
        self.interrupt: BaseException | None = None
        self._undo: Callable[[T], object] | None = None
        self._wanted: Callable[[], object] | None = None
        self._state = threading.Lock()
        self._gate = _closed_gate()  # of who waits for the call
        self._answered = _closed_gate()  # of the call, when it wants something of who waits

    # In the shelter.

    def perform(self) -> None:
        """Do the work, if that was not done before: a call may be handed over twice."""
        if self._taken:
            return
        self._taken = True
        try:
            self.value = self._work()
        except BaseException as error:  # noqa: BLE001 - who waits gets it
            self.error = error
        with self._state:
            self.done = True
            undo = self._undo if self._is_left and self.error is None else None
        if undo is not None:
            undo(self.value)  # type: ignore[arg-type]
        open_gate(self._gate)

    def ask(self, wanted: Callable[[], T]) -> T:
        """Have who waits for the call make another one: its own code, in its own thread."""
        found: list[T] = []
        failed: list[BaseException] = []

        def make() -> None:
            try:
                found.append(wanted())
            except BaseException as error:  # noqa: BLE001 - who asked gets it
                failed.append(error)

        self._wanted = make
        open_gate(self._gate)
        while not self._answered.acquire(timeout=_GIVE_UP_AGAIN_S):
            if self.interrupt is not None:
                break
        if failed:
            raise failed[0]
        if not found:
            assert self.interrupt is not None
            raise self.interrupt
        return found[0]

    # In the thread that waits.

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until it is done; False when the time passed first. What it asks for meanwhile is made here."""
        while not self.done:
            if not pass_gate(self._gate, timeout_s):
                return self.done
            wanted, self._wanted = self._wanted, None
            if wanted is not None and self.interrupt is None:
                wanted()
                open_gate(self._answered)
        return True

    def leave(self, undo: Callable[[T], object] | None) -> None:
        """Nobody waits for it any more: ``undo`` is called with what it gives, in the shelter or here."""
        with self._state:
            self._is_left, self._undo = True, undo
            late = self.done and self.error is None
        if late and undo is not None:
            undo(self.value)  # type: ignore[arg-type]

    def result(self) -> T:
        """What it gave, once done; to be asked once."""
        error = self.error
        if error is not None:
            try:
                raise error
            finally:
                self.error = error = None  # no cycle by way of its traceback
        return self.value  # type: ignore[return-value]


class Shelter:
    """The thread and its queue. :meth:`call` is the main thread's."""

    _one: ClassVar[Shelter | None] = None
    _main: ClassVar[int | None] = threading.main_thread().ident

    def __init__(self) -> None:
        self._calls: SimpleQueue[ShelteredCall[Any]] = SimpleQueue()
        self._is_left = False
        self._thread = threading.Thread(target=self._run, name="herdpy-shelter", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_left:
            call: ShelteredCall[Any] | None = self._calls.get()
            assert call is not None
            _here.call = call
            call.perform()
            _here.call = call = None  # what it gave may be let go of

    @classmethod
    def is_needed(cls) -> bool:
        """Whether a signal's exception may come in this thread."""
        return threading.get_ident() == cls._main

    @classmethod
    def call(
        cls,
        work: Callable[[], T],
        give_up: Callable[[], object] = lambda: None,
        undo: Callable[[T], object] | None = None,
        left: Callable[[ShelteredCall[T]], object] = lambda _call: None,
    ) -> T:
        """Do ``work`` where no signal's exception comes, and wait for it.

        An interrupt is raised once the work has ended, which ``give_up`` hastens; a second one at once.

        Args:
            give_up: may be called several times, in this thread.
            undo: called with what the work gave when that does not reach the caller.
            left: called for a call that goes on although nobody waits for it.
        """
        if threading.get_ident() != cls._main:
            return work()
        call = ShelteredCall(work)
        try:
            one = cls._started()
            one._calls.put(call)
            while not call.wait(_STILL_THERE_S):
                if not one._thread.is_alive():  # it was about to end when the call came
                    one = cls._started()
                    one._calls.put(call)
            if one._is_left:
                one._thread.join()
            if call.error is None:
                return call.result()
        except BaseException as interrupt:
            call.interrupt = interrupt
            cls._end(call, give_up, undo, left)
            raise
        return call.result()

    @classmethod
    def rest(cls) -> None:
        """Nothing is left to be done: the thread ends. Called in it, or where it does nothing."""
        one, cls._one = cls._one, None
        if one is not None:
            one._is_left = True
            if threading.current_thread() is not one._thread:
                one._calls.put(ShelteredCall(lambda: None))

    @classmethod
    def _started(cls) -> Shelter:
        one = cls._one
        if one is None or not one._thread.is_alive():
            cls._one = one = cls()
        return one

    @classmethod
    def _end(
        cls,
        call: ShelteredCall[T],
        give_up: Callable[[], object],
        undo: Callable[[T], object] | None,
        left: Callable[[ShelteredCall[T]], object],
    ) -> None:
        """An interrupt has struck: have the call end, and wait for that."""
        one = None
        try:
            one = cls._started()
            one._calls.put(call)  # it may have struck before that was done
            while not call.wait(_GIVE_UP_AGAIN_S):
                give_up()
                if not one._thread.is_alive():
                    one = cls._started()
                    one._calls.put(call)
        except BaseException:
            cls._one = None  # what comes next need not wait for it
            if one is not None:
                one._is_left = True
            left(call)
            raise
        finally:
            call.leave(undo)

    @classmethod
    def drawn(cls, items: Iterable[T]) -> Iterator[T]:
        """The items, each taken in the thread that waits: they may be made by a program's own code."""
        return _Drawn(iter(items))

    @classmethod
    def forked(cls) -> None:
        """A child has one thread only, and that is its main thread."""
        cls._one, cls._main = None, threading.get_ident()


class _Drawn(Iterator[T]):
    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        call: ShelteredCall[Any] | None = getattr(_here, "call", None)
        if call is None:
            return next(self._items)
        found, item = call.ask(self._next)
        if not found:
            raise StopIteration
        result: T = item
        return result

    def _next(self) -> tuple[bool, T | None]:
        for item in self._items:
            return True, item
        return False, None


def _closed_gate() -> threading.Lock:
    gate = threading.Lock()
    gate.acquire()
    return gate


os.register_at_fork(after_in_child=Shelter.forked)
