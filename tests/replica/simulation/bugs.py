"""Bugs to put into replication: the simulation has to notice each of them.

Each is a context manager that patches replicas while it is entered: mistakes that work well until something
fails at the wrong moment. Those of the log alone are in ``tests/log_bookkeeper/simulation/bugs.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from herdpy.bookkeeper.metadata.ledger_store import LedgerStore
from herdpy.log import LSN, Append, LogEntry, LogError, TransactionAssembler
from herdpy.log.bookkeeper import FollowedLog, LeaderLog, takeover
from herdpy.log.bookkeeper.leader_log import Acknowledger
from herdpy.log.entry import decode_entry
from herdpy.log.wait import Wait
from herdpy.rpc.lac_reports import LacReport
from herdpy.rpc.read_index import ReadIndex, SendQuestion
from herdpy_server.cluster import positions
from herdpy_server.cluster.lease import Term
from herdpy_server.replica import following, lac_reports, served
from herdpy_server.replica.fitness import DiskHealth, Fitness
from herdpy_server.replica.guard import ReplicaGuard, ReplicaState
from herdpy_server.replica.lac_reports import ConfirmingLog, reports_of
from herdpy_server.replica.read_index import LeaderAnswers, LeaderQuestions
from herdpy_server.sessions import request_ids
from herdpy_server.store.apply import Applier
from herdpy_server.store.loads import Loads
from herdpy_server.tablespace import Tablespace
from herdpy_server.tablespace.cluster import ReadLevel
from tests.bookkeeper.simulation.bugs import BUGS as CLIENT_BUGS
from tests.log_bookkeeper.simulation.bugs import BUGS as LOG_BUGS

Bug = Callable[[], AbstractContextManager[None]]
BUGS: dict[str, Bug] = {
    "drops_the_fence": CLIENT_BUGS["drops_the_fence"],
    "says_not_done_of_what_is_unknown": LOG_BUGS["says_not_done_of_what_is_unknown"],
}


def _bug(make: Callable[[], Iterator[None]]) -> Bug:
    bug = contextmanager(make)
    BUGS[make.__name__] = bug
    return bug


@_bug
def does_not_check_the_lease_after_the_read() -> Iterator[None]:
    """Who leads, as far as it knows, answers."""
    with patch.object(ReplicaGuard, "holds", lambda _self, _wanted, _basis: True):
        yield


@_bug
def answers_nobody_without_zookeeper() -> Iterator[None]:
    """A read without a lease waits for ZooKeeper."""
    with patch.object(LeaderLog, "confirm", lambda _self: Wait()):
        yield


@_bug
def takes_any_log_for_its_own() -> Iterator[None]:
    """A read without a lease is confirmed at once, by a log that may be fenced."""

    def at_once(_self: LeaderLog) -> Wait[None]:
        wait: Wait[None] = Wait()
        wait.resolve(None)
        return wait

    with patch.object(LeaderLog, "confirm", at_once):
        yield


@_bug
def does_not_wait_out_the_predecessors_lease() -> Iterator[None]:
    """A new leader begins to answer when it has the log."""
    alone = Term.alone

    async def at_once(self: Term) -> None:
        self.predecessor_until_s = 0.0
        await alone(self)

    with patch.object(Term, "alone", at_once):
        yield


@_bug
def answers_before_it_is_durable() -> Iterator[None]:
    """A commit is acknowledged when it has its place in the queue."""
    commit = Tablespace.commit

    def at_once(self: Tablespace, transaction: Any, request_id: bytes = b"") -> Append | None:
        append = commit(self, transaction, request_id)
        if append is not None:
            append.resolve(LSN(0, 0))
        return append

    with patch.object(Tablespace, "commit", at_once):
        yield


@_bug
def lets_a_transaction_live_through_another_leader() -> Iterator[None]:
    """What was open when the leader changed may commit when this replica leads again."""

    def switch_log(self: Tablespace, log: Any) -> None:
        self.log = log

    with patch.object(Tablespace, "switch_log", switch_log):
        yield


@_bug
def takes_the_last_add_confirmed_for_the_end() -> Iterator[None]:
    """A bounded read takes for the log's end what bookies know to be confirmed."""
    with patch.object(FollowedLog, "bound", FollowedLog.position):
        yield


@_bug
def believes_to_be_fresh_for_ever() -> Iterator[None]:
    """A follower that was fresh once answers bounded reads from then on."""
    is_open = ReplicaGuard.is_open

    def fresh(self: ReplicaGuard, wanted: ReadLevel) -> bool:
        if wanted.level == "bounded" and self.state is ReplicaState.FOLLOWING:
            return self._fresh_s >= 0
        return is_open(self, wanted)

    with patch.object(ReplicaGuard, "is_open", fresh):
        yield


@_bug
def applies_what_is_not_confirmed() -> Iterator[None]:
    """A follower applies entries as soon as a bookie has them."""

    async def tail(self: FollowedLog, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        position = after
        while not self._closed:
            for info in (await self.refresh()).ledgers:
                first = position.entry_id + 1 if position.ledger_id == info.ledger_id else 0
                if info.ledger_id < position.ledger_id:
                    continue
                last = info.last_entry_id if info.closed else max(await self._asked(info))
                reader = await self._bk.open_ledger(info.ledger_id, self._settings.password)
                try:
                    if first <= last:
                        async for raw in reader.read_unconfirmed(first, last):
                            position = LSN(info.ledger_id, raw.entry_id)
                            yield position, decode_entry(raw.data)
                finally:
                    await reader.close()
            await asyncio.sleep(0.02)

    with patch.object(FollowedLog, "tail", tail):
        yield


@_bug
def reports_what_is_not_confirmed() -> Iterator[None]:
    """A leader reports to its followers what it has sent to the bookies."""

    def reports(log: Any, epoch: int, _pace: object) -> AsyncGenerator[LacReport, None]:
        async def lac_after(position: LSN) -> LSN:
            while log.failure is None and log.end <= position:
                await asyncio.sleep(0.01)
            return log.end  # type: ignore[no-any-return]

        sent = SimpleNamespace(
            lac=log.end, failure=None, lac_after=lac_after, recent_entries=lambda _after, _upto: ()
        )
        return reports_of(cast(ConfirmingLog, sent), epoch)

    with patch.object(served, "reports_of", reports):
        yield


@_bug
def believes_a_silent_leader() -> Iterator[None]:
    """A follower that has heard a report waits for the next one, and asks no bookie."""
    with patch.object(lac_reports, "SILENT_S", 1e6):
        yield


@_bug
def skips_an_entry_of_each_ledger() -> Iterator[None]:
    """The chain is not checked, and a follower misses an entry when a ledger follows another."""

    class Unchecked(TransactionAssembler):
        def take(self, entry: LogEntry) -> list[bytes]:
            self.position, self.crc = entry.header.predecessor, None
            whole = super().take(entry)
            return [] if entry.header.lsn.entry_id == 1 else whole

    with patch.object(following, "TransactionAssembler", Unchecked):
        yield


@_bug
def tells_nobody_that_the_log_was_lost() -> Iterator[None]:
    """Commits that were in flight when the leader stepped down are reported as done."""
    fail = Acknowledger.fail

    def done(self: Acknowledger, appends: Sequence[Append], error: LogError, cause: LogError) -> None:
        for append in appends:
            append.resolve(LSN(0, 0))
        fail(self, appends, error, cause)

    with patch.object(Acknowledger, "fail", done):
        yield


@_bug
def trims_past_a_follower() -> Iterator[None]:
    """What is in the leader's checkpoint is deleted, whoever has still to read it."""
    with patch.object(positions, "trim_floor", lambda checkpoint, *_others, **_options: checkpoint):
        yield


@_bug
def guesses_where_it_only_follows() -> Iterator[None]:
    """A server that does not lead says "not done" of a commit that it has not read of yet."""
    answer = request_ids._answer

    async def guessed(session: Any, plan: Any, values: Any) -> str:
        told = await answer(session, plan, values)
        return request_ids.NOT_DONE if told == request_ids.UNKNOWN else told

    with patch.object(request_ids, "_answer", guessed):
        yield


@_bug
def guesses_what_the_next_leader_knows() -> Iterator[None]:
    """Who led a moment ago says "not done" without making sure that nobody else leads."""

    async def confirm(_self: ReplicaGuard, _wanted: Any, _basis: Any) -> None:
        pass

    with patch.object(ReplicaGuard, "confirm", confirm):
        yield


@_bug
def skips_what_stands_in_staged_ledgers() -> Iterator[None]:
    """Who applies the log takes what is in the log only."""
    with patch.object(Applier, "load_in_steps", lambda _self, _record: iter(())):
        yield


@_bug
def deletes_staged_ledgers_when_they_are_applied() -> Iterator[None]:
    """The leader has the rows of a load, and its ledgers are in the way."""
    trimmed = Loads.trimmed

    def too_many(self: Loads, base: LSN) -> list[int]:
        return trimmed(self, base) + [ledger for one in self for ledger in one.staged]

    with patch.object(Loads, "trimmed", too_many):
        yield


@_bug
def never_deletes_staged_ledgers() -> Iterator[None]:
    """Nobody tells the leader which are not needed any more."""
    with patch.object(Loads, "trimmed", lambda _self, _base: []):
        yield


@_bug
def believes_a_bookie_that_lost_its_disk() -> Iterator[None]:
    """The "nothing" of a bookie whose disks are new proves that there was nothing."""

    async def remade(self: Any, ledger_id: int, bookie_ids: Any) -> frozenset[str]:
        return frozenset()

    with patch.object(LedgerStore, "remade", remade), patch.object(takeover, "_furthest", lambda _: {}):
        yield


@_bug
def never_finds_itself_cut_off() -> Iterator[None]:
    """A leader goes by ZooKeeper alone, and so do its election and those who make way."""
    with patch.object(Fitness, "_find", lambda _self: None):
        yield


@_bug
def gives_up_although_nobody_can_do_better() -> Iterator[None]:
    """A leader that is cut off takes the others for fit, whatever they say."""

    async def others(_self: Fitness) -> list[Any]:
        return [SimpleNamespace(node="somebody")]

    with patch.object(Fitness, "_others", others):
        yield


@_bug
def tells_nobody_that_it_is_cut_off() -> Iterator[None]:
    """It knows, and others make way for it."""
    report = positions.Reports.report

    def silent(self: positions.Reports, *arguments: Any, **_options: Any) -> None:
        report(self, *arguments[:4])

    with patch.object(positions.Reports, "report", silent):
        yield


@_bug
def leads_on_without_a_disk() -> Iterator[None]:
    """What it cannot write it keeps in memory."""
    with patch.object(DiskHealth, "_find", lambda _self, _replica: None):
        yield


# Reads on followers.


@_bug
def answers_a_follower_without_its_lease() -> Iterator[None]:
    """A leader answers a follower's question by its word alone."""

    def answer(self: LeaderAnswers, number: int, send: Callable[[ReadIndex], object]) -> None:
        send(self._index(number))

    with patch.object(LeaderAnswers, "answer", answer):
        yield


@_bug
def counts_freshness_from_the_answer() -> Iterator[None]:
    """A follower takes the time at which it hears how far the log is for that of its question."""
    answered = LeaderQuestions.answered

    def late(self: LeaderQuestions, index: ReadIndex) -> None:
        self._sent_s = self._clock()
        answered(self, index)

    with patch.object(LeaderQuestions, "answered", late):
        yield


@_bug
def numbers_questions_of_each_connection_anew() -> Iterator[None]:
    """An answer of an earlier leader passes for one of the new leader."""
    connected = LeaderQuestions.connected

    def anew(self: LeaderQuestions, send: SendQuestion | None) -> None:
        self.sent = 0
        connected(self, send)

    with patch.object(LeaderQuestions, "connected", anew):
        yield


@_bug
def answers_with_a_position_from_before_the_question() -> Iterator[None]:
    """A leader answers with the position that it had when the follower came."""
    index = LeaderAnswers._index
    known: dict[int, ReadIndex] = {}

    def first(self: LeaderAnswers, number: int) -> ReadIndex:
        return known.setdefault(id(self), index(self, number))._replace(number=number)

    with patch.object(LeaderAnswers, "_index", first):
        yield


@_bug
def takes_what_is_acknowledged_for_all_that_was_read() -> Iterator[None]:
    """A linearizable read on a follower waits only for what the leader has acknowledged."""
    index = LeaderAnswers._index

    def acknowledged(self: LeaderAnswers, number: int) -> ReadIndex:
        return index(self, number)._replace(end=self._log.lac)

    with patch.object(LeaderAnswers, "_index", acknowledged):
        yield
