"""Handlers: what a program gives a worker for each type of task, and what a handler's end means. Layer 3.

handler(TaskContext), in a transaction     -> Committed: effects and finish committed together, exactly once
plain(function)(payload), no connection    -> Returned: its effects are its own; finished in batches
either raises                              -> Failure: tried again later, or a dead letter
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import herdpy
from herdpy.aio import AsyncConnection
from herdpy_broker import values
from herdpy_broker.claim import ClaimedTask
from herdpy_broker.errors import BrokerError, InvalidValueError, TaskLostError
from herdpy_broker.membership import Registration

C = TypeVar("C")
H = TypeVar("H")


class RejectError(BrokerError):
    """Raised by a handler: the task can never succeed, and becomes a dead letter without further attempts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task that this worker runs, and the registration under which it was claimed."""

    task: ClaimedTask
    registration: Registration

    @property
    def is_lost(self) -> bool:
        """The worker was given up: the task is another worker's, and this attempt can finish nothing."""
        return self.registration.is_lost


@dataclass(frozen=True, slots=True)
class HandlerContext(Generic[C]):
    """What a handler gets.

    Attributes:
        connection: a connection in a transaction. The task is finished in the same transaction, after the
            handler has returned, so its statements take effect exactly once. The handler must not commit or
            roll back.
    """

    attempt: Attempt
    connection: C

    @property
    def task(self) -> ClaimedTask:
        """The task, with its payload."""
        return self.attempt.task

    @property
    def is_lost(self) -> bool:
        """The task is another worker's by now; a long handler looks now and then, and returns at once."""
        return self.attempt.is_lost


class TaskContext(HandlerContext[herdpy.Connection[Any]]):
    """What a handler of a :class:`Worker` or a :class:`ProcessWorker` gets."""

    __slots__ = ()


class AsyncTaskContext(HandlerContext[AsyncConnection[Any]]):
    """What a handler of an :class:`AsyncWorker` gets; its connection is an asynchronous one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Plain:
    """A function of the payload, run without a connection; made by :func:`plain`."""

    function: Callable[[Any], object]

    def __call__(self, payload: object) -> object:
        """What the function returns."""
        return self.function(payload)


def plain(function: Callable[[Any], object]) -> Plain:
    """A handler that is a function of the payload alone; also a decorator.

    It gets no connection and no transaction, so many results are finished together, which is faster. When the
    worker dies between the function's end and the finish, the function runs again elsewhere.
    """
    return Plain(function)


Handler = Callable[[TaskContext], object] | Plain
AsyncHandler = Callable[[AsyncTaskContext], Awaitable[object]] | Plain


def checked_handlers(handlers: Mapping[str, H]) -> dict[str, H]:
    """The handlers by type. ValueError when there are none, TypeError when one cannot be called."""
    if not handlers:
        raise ValueError("a worker needs a handler for at least one type of task")
    for name, handler in handlers.items():
        if not callable(handler):
            raise TypeError(f"the handler of {name!r} is a {type(handler).__name__}, which cannot be called")
    return dict(handlers)


@dataclass(frozen=True, slots=True)
class Committed:
    """The handler's work and the finish were committed."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A plain handler returned, and the task is to be finished."""

    result: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt ended by an error, and its work was rolled back.

    Attributes:
        error: the text that is kept with the task.
        may_retry: another attempt may succeed.
        was_lost: the task was not this worker's any more, so there is nothing to fail.
    """

    error: str
    may_retry: bool = True
    was_lost: bool = False


Outcome = Committed | Returned | Failure


def failure_of(error: BaseException) -> Failure:
    """What an error of a handler, or of the finish in its transaction, means for the task.

    A value that the broker refuses (a result that is no JSON) would be refused again.
    """
    may_retry = not isinstance(error, RejectError | InvalidValueError)
    return Failure(error_text(error), may_retry, isinstance(error, TaskLostError))


def error_text(error: BaseException) -> str:
    """What is kept of an error: its type, its message, and where it was raised."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    place = ""
    if frames := traceback.extract_tb(error.__traceback__)[-1:]:
        place = f"\n(in {frames[0].name}, {frames[0].filename}:{frames[0].lineno})"[: values.ERROR_MOST // 2]
    return values.error_text(f"{name}: {_message(error)}"[: values.ERROR_MOST - len(place)] + place)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 - __str__ is the program's, and may do anything
        return f"(its text raised {type(second).__name__})"
