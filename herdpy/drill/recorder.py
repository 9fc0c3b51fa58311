"""Notes operations and events while a drill runs; any thread, or any task of a loop, may use one Recorder.

with recorder.call(process, "write", ["x", 1]) as call:
    try:
        ...
        call.done(None)
    except OperationalError as error:
        call.unknown(str(error))
        call.resolved(OperationOutcome.DONE)     # now, or after the with
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

from herdpy.drill.history import ClientOperation, DrillHistory, Event, HistoryError, Json, OperationOutcome


class Recorder:
    """Adds to one history; its clock starts at 0 when it is made. `clock` counts seconds, monotonically."""

    def __init__(
        self, history: DrillHistory | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.history = DrillHistory() if history is None else history
        self._clock = clock
        self._start_s = clock()
        self._lock = threading.Lock()
        self._processes = itertools.count()

    def now_s(self) -> float:
        """Seconds since the history's start."""
        return self._clock() - self._start_s

    def next_process(self) -> int:
        """A number that no client has had: for a new client, and for one whose operation is unknown."""
        with self._lock:
            return next(self._processes)

    def call(self, process: int, name: str, arguments: Any, **details: Any) -> RecordedCall:
        """An operation, called when the `with` is entered. Arguments and details are JSON values."""
        return RecordedCall(self, process, name, _json(arguments), _json(details))

    def event(self, kind: str, text: str, *, at_s: float | None = None, **details: Any) -> Event:
        """Something happened, now or at `at_s`."""
        event = Event(self.now_s() if at_s is None else at_s, kind, text, _json(details))
        with self._lock:
            self.history.events.append(event)
        return event

    def _add(self, operation: ClientOperation) -> int:
        with self._lock:
            self.history.operations.append(operation)
            return len(self.history.operations) - 1

    def _replace(self, index: int, operation: ClientOperation) -> None:
        with self._lock:
            self.history.operations[index] = operation


class RecordedCall:
    """One operation under way; it is in the history from the moment the `with` is left.

    If the `with` is left by an exception before its outcome was told, it is recorded as unknown, and the
    exception goes on.
    """

    def __init__(self, recorder: Recorder, process: int, name: str, arguments: Json, details: Any) -> None:
        self._recorder = recorder
        self._index: int | None = None
        self._is_told = False
        self._operation = ClientOperation(
            process, name, arguments, None, OperationOutcome.UNKNOWN, 0.0, 0.0, details=dict(details)
        )

    @property
    def operation(self) -> ClientOperation:
        """The operation as it is known now."""
        return self._operation

    @property
    def called_s(self) -> float:
        """When it was called, in seconds since the history's start."""
        return self._operation.called_s

    def __enter__(self) -> RecordedCall:
        self._operation = replace(self._operation, called_s=self._recorder.now_s())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        was_told = self._is_told
        if not was_told:
            self.unknown("no outcome was recorded" if error is None else f"{type(error).__name__}: {error}")
        self._index = self._recorder._add(self._operation)
        if error is None and not was_told:
            raise HistoryError(
                f"{self._operation.name} of process {self._operation.process} recorded no outcome"
            )

    def done(self, result: Any = None) -> None:
        """It was acknowledged, now, with this result."""
        self._tell(OperationOutcome.DONE, _json(result), None)

    def not_done(self, error: str) -> None:
        """It was refused, now, and certainly has no effect."""
        self._tell(OperationOutcome.NOT_DONE, None, error)

    def unknown(self, error: str) -> None:
        """The client gave up, now: it may have taken effect, may later, or never."""
        self._tell(OperationOutcome.UNKNOWN, None, error)

    def resolved(self, outcome: OperationOutcome) -> None:
        """A question by request id told, now, what became of it: DONE or NOT_DONE."""
        if self._operation.outcome is not OperationOutcome.UNKNOWN or outcome is OperationOutcome.UNKNOWN:
            raise HistoryError(f"a {self._operation.outcome} operation cannot be resolved as {outcome}")
        self._change(resolved=outcome, resolved_s=self._recorder.now_s())

    def detail(self, **details: Any) -> None:
        """Note more about it: the server that answered, how often it was tried."""
        self._change(details=self._operation.details | _json(details))

    def _tell(self, outcome: OperationOutcome, result: Json, error: str | None) -> None:
        if self._is_told:
            raise HistoryError(f"the outcome of {self._operation.name} was recorded already")
        self._is_told = True
        self._change(outcome=outcome, result=result, error=error, returned_s=self._recorder.now_s())

    def _change(self, **fields: Any) -> None:
        self._operation = replace(self._operation, **fields)
        if self._index is not None:
            self._recorder._replace(self._index, self._operation)


def _json(value: Any) -> Any:
    """The value as JSON keeps it: tuples become lists, keys of objects strings.

    Raises: HistoryError: it is no JSON value.
    """
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise HistoryError(f"{value!r} is no JSON value") from error
