"""One client of a drill: what it does is recorded with the answers that it got.

Layer: above `sessions` and `recorder`, below workloads. A client writes on the leader; it reads there, and at
its own read level from a server that follows (`read`). Its thread goes on until `stop`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from herdpy.drill.felt import NUMBER, POISED
from herdpy.drill.history import AT_FOLLOWER, OperationOutcome, RecordedCall, Recorder
from herdpy.drill.sessions import ClientSession, ClientSessions, FailedError, Way

_PAUSE_AFTER_FAILURE_S = 0.05
_LEADER_SHARE, _LINEARIZABLE_AT_LEADER = 0.25, 0.5
"""How many of its reads a client does on the leader: one with a lower read level, and one whose reads are
linearizable wherever they are answered."""


@dataclass(frozen=True)
class _OwnWrite:
    """A write of this client: every replica at `position` has it, and all that was done before `called_s`."""

    position: str
    called_s: float
    name: str
    arguments: Any


class Client:
    """One client of one workload; for one thread.

    random: decides what it does. process: its number, another one after each unknown outcome.
    isolation: for BEGIN, in capitals; None for the server's own. way: where it reads, and how.
    is_poised: it waits for a server that sleeps, on purpose.
    """

    def __init__(
        self,
        workload: str,
        sessions: ClientSessions,
        way: Way,
        recorder: Recorder,
        random: Random,
        *,
        isolation: str | None = None,
        rate_per_s: float = 40.0,
        stop: threading.Event | None = None,
        is_poised: bool = False,
    ) -> None:
        self.random = random
        self.isolation = isolation
        self.process = recorder.next_process()
        self.session: ClientSession = sessions.open(
            replace(way, read_level="linearizable", at_follower=False)
        )
        self._reader = sessions.open(replace(way, at_follower=True))
        self.way = way
        self._recorder = recorder
        self._rate_per_s = rate_per_s
        self._stop = threading.Event() if stop is None else stop
        self._own: _OwnWrite | None = None
        self._details: dict[str, Any] = {"workload": workload, "client": sessions.kind, NUMBER: self.process}
        if is_poised:
            self._details[POISED] = True

    def attempt(
        self,
        name: str,
        arguments: Any,
        work: Callable[[], Any],
        *,
        changes: bool = True,
        **details: Any,
    ) -> Any:
        """Do `work` and record it as one operation; its result, None when it failed.

        changes: False for what only reads, and has no effect however it ends.
        """
        failed: FailedError | None = None
        result: Any = None
        with self._recorder.call(self.process, name, arguments, **(self._details | details)) as call:
            try:
                result = work()
            except FailedError as error:
                failed = error
                if error.outcome is OperationOutcome.NOT_DONE or not changes:
                    call.not_done(str(error))
                else:
                    call.unknown(str(error))
            else:
                call.done(result)
        if failed is None:
            if changes and self.way.read_level == "at_lsn":
                self._note_position(call)
            return result
        if call.operation.outcome is OperationOutcome.UNKNOWN:
            self._go_on(call, failed)
        self._stop.wait(_PAUSE_AFTER_FAILURE_S)
        return None

    def read(self, name: str, arguments: Any, work: Callable[[ClientSession], Any], **details: Any) -> Any:
        """Do `work`, which only reads, at this client's read level, most of the time; see `attempt`.

        The operation's details have the level, and `sees_from_s`: how old what it shows may be.
        """
        if self.random.random() < (_LEADER_SHARE if self.way.follows else _LINEARIZABLE_AT_LEADER):
            return self.read_now(name, arguments, work, **details)
        if not self.way.follows:
            details |= {"read_level": "linearizable", AT_FOLLOWER: True}
            return self.attempt(name, arguments, lambda: work(self._reader), changes=False, **details)
        own = self._own if self.way.read_level == "at_lsn" else None
        level: dict[str, Any] = {"read_level": self.way.read_level, "sees_from_s": self._sees_from_s()}
        if own is not None:
            level["own"] = [own.name, own.arguments]

        def at_level() -> Any:
            if own is not None:
                self._reader.execute(f"SET herdpy.min_lsn = '{own.position}'")
            return work(self._reader)

        return self.attempt(name, arguments, at_level, changes=False, **details, **level)

    def read_now(
        self, name: str, arguments: Any, work: Callable[[ClientSession], Any], **details: Any
    ) -> Any:
        """Do `work`, which only reads, on the leader; see `attempt`."""
        details["read_level"] = "linearizable"
        return self.attempt(name, arguments, lambda: work(self.session), changes=False, **details)

    def transaction(self, work: Callable[[], Any]) -> Any:
        """One transaction on the leader, at this client's isolation; see `Session.transaction`."""
        return self.session.transaction(work, self.isolation)

    def pause(self) -> None:
        """Before the next operation: about 1/rate_per_s, less when the drill is over."""
        self._stop.wait(self.random.expovariate(self._rate_per_s))

    def close(self) -> None:
        """Give the connections up."""
        self.session.close()
        self._reader.close()

    def _sees_from_s(self) -> float:
        match self.way.read_level:
            case "bounded":
                return self._recorder.now_s() - self.way.max_staleness_s
            case "at_lsn" if self._own is not None:
                return self._own.called_s
        return 0.0

    def _note_position(self, call: RecordedCall) -> None:
        """Where the log was after the write. When nobody tells, the last position is good enough."""
        try:
            ((position,),) = self.session.execute("SELECT herdpy.commit_position()").rows
        except FailedError:
            return
        operation = call.operation
        self._own = _OwnWrite(str(position), operation.called_s, operation.name, operation.arguments)

    def _go_on(self, call: RecordedCall, failed: FailedError) -> None:
        """After an unknown outcome: under a new number, once it is known what became of the old operation."""
        self.process = self._recorder.next_process()
        if failed.outcome is OperationOutcome.DONE:
            call.resolved(OperationOutcome.DONE)
        elif failed.request_id is not None:
            resolved = self.session.resolve(failed.request_id)
            if resolved is not None:
                call.resolved(resolved)
