"""The clients' operations with their answers, and what happened meanwhile: the ground of every judgement.

Layer: the bottom of herdpy.drill. A Recorder appends to a DrillHistory while clients run (any thread, any
task); `checkers` judge it, the report draws it, and it is kept as a file of JSON lines, so that it can be
judged again.

The names of operations, their arguments and their results, as the checkers read them:

    registers    read [key] -> value or null;  write [key, value] -> null;
                   cas [key, old, new] -> true or false
    lists        txn [["append", key, element], ["read", key, null], ...]
                   -> [["append", key, element], ["read", key, [element, ...] or null], ...]
    bank         transfer [from, to, amount] -> true, or false when refused;
                   balances [] -> {account: balance}
    sets         add [element] -> null;  members [] -> [element, ...]
    inserts      insert [id] -> null;  rows [] -> [id, ...], an id as often as it is there, in the order read
    queue        put [job] -> null;  take [] -> job, or null when none was left;  waiting [] -> [job, ...]
    unique keys  claim [key, claimant] -> true, or false when another has it;
                   owners [] -> {key: claimant}
    replicas     checksum [tablespace] -> {replica: checksum}, when all is quiet

Every element, id, job and claimant is given once in a history, and every value written to one register once:
that is how a checker knows who wrote what.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

AT_FOLLOWER = "at_follower"
"""In the details of a linearizable read that went to a server that follows."""
FORMAT = 1
"""The version of the file; its first line names it."""


class HistoryError(ValueError):
    """A file is not a history, or an operation was recorded wrongly."""


class OperationOutcome(StrEnum):
    """What is known of an operation."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClientOperation:
    """One operation of one client. Times are seconds since the history's start, on one monotonic clock.

    process: a client; it has one operation at a time. After UNKNOWN the client goes on under a new number
        (`Recorder.next_process`), for the old operation may still take effect.
    result: what was answered; None when it was not DONE.
    returned_s: for UNKNOWN: when the client gave up. It may take effect any time later.
    error: SQLSTATE and message, when it was not DONE.
    resolved: what a later question by request id found of an UNKNOWN one, and when (None: never).
    details: isolation, read_level, `AT_FOLLOWER`, server, request_id, retries, workload, and `sees_from_s`
        (see below).
    """

    process: int
    name: str
    arguments: Json
    result: Json
    outcome: OperationOutcome
    called_s: float
    returned_s: float
    error: str | None = None
    resolved: OperationOutcome | None = None
    resolved_s: float | None = None
    details: dict[str, Json] = field(default_factory=dict)

    @property
    def final(self) -> OperationOutcome:
        """The outcome, as far as it is known in the end: the resolved one where there is one."""
        return self.resolved if self.resolved is not None else self.outcome

    @property
    def ended_s(self) -> float:
        """When it certainly had taken effect, if it did: infinity for an outcome that stayed unknown."""
        if self.outcome is not OperationOutcome.UNKNOWN:
            return self.returned_s
        if self.resolved is OperationOutcome.DONE and self.resolved_s is not None:
            return self.resolved_s
        return float("inf")

    @property
    def sees_from_s(self) -> float:
        """The oldest moment whose state it may show: its call, or less for a read that may be stale.

        A read bounded to five seconds has details {"sees_from_s": called_s - 5}; one `at_lsn` names the
        moment at which the write of that LSN had returned; one of level `any` names 0.
        """
        value = self.details.get("sees_from_s")
        return min(float(value), self.called_s) if isinstance(value, (int, float)) else self.called_s

    def to_json(self) -> dict[str, Json]:
        """Its fields by name."""
        return {name: getattr(self, name) for name in type(self).__slots__}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the cluster. kind: fault-begin, fault-end, leader, phase or note."""

    at_s: float
    kind: str
    text: str
    details: dict[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Its fields by name."""
        return {name: getattr(self, name) for name in type(self).__slots__}


class DrillHistory:
    """Operations in the order in which they returned, and events; `Recorder` adds to both."""

    def __init__(self, operations: Iterable[ClientOperation] = (), events: Iterable[Event] = ()) -> None:
        self.operations = list(operations)
        self.events = list(events)

    def __len__(self) -> int:
        return len(self.operations)

    def __iter__(self) -> Iterator[ClientOperation]:
        return iter(self.operations)

    def where(self, keep: Callable[[ClientOperation], bool]) -> DrillHistory:
        """The part of the history whose operations `keep` accepts, with all events."""
        return DrillHistory((each for each in self.operations if keep(each)), self.events)

    def of(self, *names: str) -> DrillHistory:
        """The part of the history with operations of these names."""
        return self.where(lambda each: each.name in names)

    def save(self, path: Path | str) -> None:
        """Write the history as JSON lines: a head, then one operation or event a line.

        Raises: OSError.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"herdpy-drill-history": FORMAT}) + "\n")
            for event in self.events:
                file.write(json.dumps({"event": event.to_json()}) + "\n")
            for operation in self.operations:
                file.write(json.dumps({"operation": operation.to_json()}) + "\n")

    @classmethod
    def load(cls, path: Path | str) -> DrillHistory:
        """Read what `save` wrote.

        Raises: HistoryError that names the line; OSError.
        """
        history = cls()
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    history._take(number, json.loads(line))
                except (ValueError, TypeError, KeyError) as error:
                    raise HistoryError(f"{path}, line {number}: {error}") from error
        return history

    def _take(self, number: int, line: Any) -> None:
        if number == 1:
            if line != {"herdpy-drill-history": FORMAT}:
                raise HistoryError("this is no history of a drill, or one of another version")
        elif "event" in line:
            self.events.append(Event(**line["event"]))
        else:
            fields = line["operation"]
            resolved = fields.get("resolved")
            operation = ClientOperation(**fields)
            self.operations.append(
                replace(
                    operation,
                    outcome=OperationOutcome(operation.outcome),
                    resolved=None if resolved is None else OperationOutcome(resolved),
                )
            )


# Recording.


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

    If the `with` is left by an exception before it had an outcome, it is recorded as unknown, and the
    exception goes on.
    """

    def __init__(self, recorder: Recorder, process: int, name: str, arguments: Json, details: Any) -> None:
        self._recorder = recorder
        self._index: int | None = None
        self._is_recorded = False
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
        was_recorded = self._is_recorded
        if not was_recorded:
            self.unknown("no outcome was recorded" if error is None else f"{type(error).__name__}: {error}")
        self._index = self._recorder._add(self._operation)
        if error is None and not was_recorded:
            raise HistoryError(
                f"{self._operation.name} of process {self._operation.process} recorded no outcome"
            )

    def done(self, result: Any = None) -> None:
        """It was acknowledged, now, with this result."""
        self._record_outcome(OperationOutcome.DONE, _json(result), None)

    def not_done(self, error: str) -> None:
        """It was refused, now, and certainly has no effect."""
        self._record_outcome(OperationOutcome.NOT_DONE, None, error)

    def unknown(self, error: str) -> None:
        """The client gave up, now: it may have taken effect, may later, or never."""
        self._record_outcome(OperationOutcome.UNKNOWN, None, error)

    def resolved(self, outcome: OperationOutcome) -> None:
        """A question by request id has found, now, what became of it: DONE or NOT_DONE."""
        if self._operation.outcome is not OperationOutcome.UNKNOWN or outcome is OperationOutcome.UNKNOWN:
            raise HistoryError(f"a {self._operation.outcome} operation cannot be resolved as {outcome}")
        self._change(resolved=outcome, resolved_s=self._recorder.now_s())

    def detail(self, **details: Any) -> None:
        """Note more about it: the server that answered, how often it was tried."""
        self._change(details=self._operation.details | _json(details))

    def _record_outcome(self, outcome: OperationOutcome, result: Json, error: str | None) -> None:
        if self._is_recorded:
            raise HistoryError(f"the outcome of {self._operation.name} was recorded already")
        self._is_recorded = True
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
