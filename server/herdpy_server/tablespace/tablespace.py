"""The state machine of one tablespace: log before apply, answer after durable and visible.

Above the log and the store, below sessions. How a change passes through:

1. A session's statements run against the workspace of a :class:`Transaction`; row locks are taken. Nothing of
   it is in the log yet.
2. :meth:`Tablespace.commit` gives the workspace's records their place in the log, makes them visible
   to everybody as *pending*, and releases the locks: whoever comes later is behind in the log.
3. The log writes what has queued as one entry and calls :meth:`acknowledge` once it is durable:
   the entry's records go through ``Store.apply``, as they do in recovery, and the pending layers go.
4. The session is answered. Who read something pending is answered only after it is durable.
5. The checkpointer writes applied changes to LMDB on a cadence; recovery begins after the LSN
   found there.

When the log fails, everything pending vanishes and those who wait get the error; reading goes on. A client
gives its commit an id (``SET herdpy.request_id``): what became of applied ones is in the store, and
:class:`Requests` has those that are pending, and decides about an id that comes.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, Literal

from herdpy.log import LSN, Append, CommitLog, LogError, LoggedTransaction, TransactionAssembler
from herdpy.log.records import TablesChecksum
from herdpy.log.wait import Wait
from herdpy_server.store import Layer, Store, Workspace
from herdpy_server.store.apply import logged_rows
from herdpy_server.store.loads import loaded_by
from herdpy_server.store.notified import TransactionNotifications
from herdpy_server.store.outcomes import CommitOutcome, made_after, outcome_of
from herdpy_server.store.snapshot_transaction import SnapshotTransaction
from herdpy_server.tablespace.cluster import Cluster, Facts, Guard, LogNeed
from herdpy_server.tablespace.locks import LoadTurns, LockTable, Owner
from herdpy_server.tablespace.log_errors import sql_error, store_error
from herdpy_server.tablespace.notifications import Notifications
from herdpy_server.tablespace.past import Past
from herdpy_server.tablespace.temporary import TemporarySchemas, end_of_transaction
from herdpy_sql.catalog import Catalog
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import MustWait
from herdpy_sql.values.styles import Style


def now_us() -> int:
    """The wall clock in microseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1000


class Transaction:
    """An open transaction.

    Attributes:
        instant: an autocommit statement that begins and takes its place in the log within one turn
            (see ``locks``); False once it had to wait, and for BEGIN ... COMMIT.
        started_us: what now() says throughout.
        partner: the session's advisory locks, if it had some when the transaction began or took some in it.
        log_generation: of the tablespace when it began: see ``Tablespace.switch_log``.
        queried: whether a statement has begun that reads or writes: then the isolation level is settled.
        workspace: the view that its statements run against.
        xid: its number in pg_locks; 0 before a query needed it.
    """

    __slots__ = (
        "instant",
        "log_generation",
        "partner",
        "queried",
        "started_us",
        "workspace",
        "xid",
    )

    partner: Owner | None
    workspace: Workspace

    def __init__(self, *, instant: bool, log_generation: int = 0) -> None:
        self.instant = instant
        self.queried = False
        self.partner = None
        self.xid = 0
        self.log_generation = log_generation
        self.started_us = time.time_ns() // 1000

    def begin_statement(self) -> None:
        """A statement begins to read or write. SqlError 72000 when its snapshot is too old."""
        self.queried = True
        if self.workspace.has_snapshot:
            self.workspace.begin_statement()

    def clock(self, style: Style) -> Clock:
        """The time that the statement beginning now may see."""
        now = self.started_us if self.instant else now_us()
        return Clock(self.started_us, now, style, self.workspace)


_GIVEN_UP = "the request was cancelled before its commit arrived: it is not done, and can no longer be done"


class DuplicateRequestError(SqlError):
    """A second commit under an id; ``first`` is the one before, when it is not durable yet."""

    def __init__(self, outcome: CommitOutcome | None, first: Append | None = None) -> None:
        super().__init__("HP001", "a transaction with this request id was committed already")
        self.first = first
        if outcome is not None:
            self.settle(outcome)

    def settle(self, outcome: CommitOutcome) -> None:
        """The first one is durable: say where it is."""
        if outcome.done:
            self.detail = f"It is at {outcome.lsn}."
        else:
            self.sqlstate, self.message = "HP002", _GIVEN_UP

    async def confirm(self) -> None:
        """Wait for the first one to be durable. SqlError 40001 or 08007 when it was lost."""
        first, self.first = self.first, None
        if first is None:
            return
        try:
            await first
        except LogError as error:
            raise sql_error(error) from error
        assert first.lsn is not None
        done = bool(first.transaction.records)
        self.settle(
            CommitOutcome(first.transaction.request_id, first.lsn, first.transaction.timestamp_us, done)
        )


class Requests:
    """The ids that are known, applied or pending. In the engine's turn."""

    def __init__(self, store: Store, confirmed: Callable[[], LSN]) -> None:
        """``confirmed`` gives the log's LAC, which is behind the header of a leader's new ledger already."""
        self._store = store
        self._confirmed = confirmed
        self._pending: dict[bytes, Append] = {}

    def find(self, request_id: bytes) -> CommitOutcome | Append | None:
        """What is known of an id: its outcome, or the append that will be its outcome."""
        return self._store.outcomes.find(request_id) or self._pending.get(request_id)

    def would_know(self, request_id: bytes) -> bool:
        """Whether an id that is not found was certainly never committed."""
        return self._store.outcomes.would_know(request_id) and not self._is_ahead(request_id)

    def _is_ahead(self, request_id: bytes) -> bool:
        """Whether an id says that it was made after a position that there is not yet."""
        after = made_after(request_id)
        return after is not None and after > self._reached

    @property
    def _reached(self) -> LSN:
        # A follower applies the header of a new leader's ledger, and names positions after it; the leader
        # applies its first commit.
        return max(self._store.applied, self._confirmed())

    def check_new(self, request_id: bytes) -> None:
        """Raise SqlError HP001 or HP002 when nothing may be committed under this id; 22023: it is no id."""
        found = self.find(request_id)
        if isinstance(found, Append):
            raise DuplicateRequestError(None, found)
        if found is not None:
            raise DuplicateRequestError(found)
        after = made_after(request_id)
        if after is None:
            return
        if after > self._reached:
            raise SqlError("22023", "the request id names a position that the log does not have")
        if after < self._store.outcomes.forgotten:
            raise SqlError(
                "HP002",
                "the request id is too old: it is not known any more whether it was committed",
                hint="Take a new one for a new transaction.",
            )

    def began(self, request_id: bytes, append: Append) -> None:
        """A commit under this id has its place in the log."""
        self._pending[request_id] = append

    def ended(self, request_id: bytes) -> None:
        """It is applied."""
        self._pending.pop(request_id, None)

    def lost(self) -> None:
        """The log failed: nothing is pending any more."""
        self._pending.clear()


Isolation = Literal["read committed", "repeatable read", "serializable"]
"""What the view of a transaction can be."""

MEMTABLES: Final = 4
"""So many times ``memtable_limit_bytes`` a transaction may take of memory."""

_MANY_ROWS = 8192

logger = logging.getLogger("herdpy.tablespace")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a tablespace found in the log after the store's checkpoint."""

    checkpoint: LSN
    end: LSN
    transactions: int
    records: int
    seconds: float


class _Pending:
    """A commit that has its place in the log and is not durable yet."""

    __slots__ = ("append", "layer", "notified", "token")

    def __init__(
        self, token: int, append: Append, layer: Layer, notified: TransactionNotifications | None = None
    ) -> None:
        self.token = token
        self.append = append
        self.layer = layer
        self.notified = notified


class Tablespace:
    """A store kept equal to its log. Every method runs in the engine's turn unless it says otherwise.

    Attributes:
        log: takes the commits; ``switch_log`` changes it.
        guard: says who may read, where this is one of several replicas; None where it is alone.
        cluster: what it is part of; None where it is alone.
        facts_here: where it is alone: what else there is to be said of it, as ``Cluster.facts``.
            ``log_needs``: what its log is kept for.
        load_turns: who publishes which load.
        temporary: the schemas of sessions' temporary tables.
        past: what was there before, as far as it is kept.
        notifications: those of applied transactions, and the sessions that listen.
        commits, rollbacks: transactions that changed something here, since the start.

    Args:
        turn: entered by threads that are not in the turn already when they change shared state: a
            mutex in the embedded database, nothing where one loop thread does everything.
    """

    def __init__(self, log: CommitLog, store: Store, turn: AbstractContextManager[object]) -> None:
        self.log = log
        self.store = store
        self.locks = LockTable()
        self.advisory = LockTable()
        self.locks.beside, self.advisory.beside = self.advisory, self.locks
        self.guard: Guard | None = None
        self.cluster: Cluster | None = None
        self.facts_here: Callable[[], Facts] = dict
        self.log_needs: Callable[[], Sequence[LogNeed]] = tuple
        self.requests = Requests(store, lambda: self.log.lac)
        self.load_turns = LoadTurns()
        self.temporary = TemporarySchemas()
        self.past = Past(store)
        self.notifications = Notifications()
        self.commits = self.rollbacks = 0
        self._log_generation = 0
        self._turn = turn
        self._pending: deque[_Pending] = deque()
        self.memtable_grew: Callable[[], None] = lambda: None
        self.checkpoint: Callable[[], object] = lambda: None
        self.checkpoint_threads: Executor | None = None  # the loop's own
        self.memtable_limit_bytes = 0  # none
        self.memtable_full: Callable[[], None] = lambda: None
        self._kept_out: list[Wait[None]] = []  # writers that wait for memory, or for the log

    async def recover(self, flush_rows: int, progress: Callable[[int], None] | None = None) -> Recovery:
        """Apply what the log has after the store's checkpoint, to the log's end.

        Args:
            flush_rows: how many changed rows may gather in memory before they go to LMDB.
            progress: called with the number of records applied so far.

        Raises:
            LogError: the log is damaged, or does not reach back to the checkpoint.
        """
        began = time.perf_counter()
        checkpoint = self.store.durable
        assembler = TransactionAssembler(checkpoint)
        transactions = records = 0
        async for lsn, entry in self.log.read(checkpoint):
            whole = assembler.feed(entry)
            if whole or assembler.safe == lsn:
                self._recovered(assembler.safe, whole)
            transactions += len(whole)
            records += sum(len(transaction.records) for _lsn, transaction in whole)
            if self.store.memtable_rows >= flush_rows:
                self.store.flush()
                if progress is not None:
                    progress(records)
        return Recovery(checkpoint, assembler.position, transactions, records, time.perf_counter() - began)

    def _recovered(self, safe: LSN, whole: Sequence[tuple[LSN, LoggedTransaction]]) -> None:
        """Apply what recovery has read, in steps where that bounds what it takes of memory."""
        if sum(logged_rows(one.records) for _lsn, one in whole) > _MANY_ROWS:
            for _ in self.store.apply_in_steps(safe, whole):
                pass
        else:
            self.store.apply_logged(safe, whole)

    def switch_log(self, log: CommitLog) -> None:
        """From now on commits go to ``log``, and transactions that are open now cannot commit any more.

        Others may write before this replica leads again, and their writes heed no lock of here: what an
        open transaction has read and changed may be of the past then. Its locks are given back.
        """
        if log is not self.log:
            self.log = log
            self._log_generation += 1
            self.locks.clear(led_by_another())
            self.advisory.clear(led_by_another())
            self.store.row_ids.clear()  # others give rows their hidden keys meanwhile
            self.store.sequence_heads.clear()  # and take values of sequences

    def begin(
        self,
        *,
        instant: bool,
        isolation: Isolation = "read committed",
    ) -> Transaction:
        """Begin a transaction; an ``instant`` one must commit or end within this turn."""
        transaction = Transaction(instant=instant, log_generation=self._log_generation)
        if isolation == "read committed":
            transaction.workspace = Workspace(self.store, self.locks, transaction)
            self._bound(transaction.workspace)
        else:
            self.isolate(transaction, isolation)
        return transaction

    def drop_temporary_leftovers(self) -> None:
        """Drop temporary tables of sessions that are no more; what cannot be dropped now, the next time."""
        if not self.temporary.has_leftovers(self.catalog):
            return
        transaction = self.begin(instant=True)
        try:
            self.temporary.drop_leftovers(transaction.workspace)
            self.commit(transaction)
        except (MustWait, SqlError, LogError) as error:
            self.rollback(transaction)
            logger.info("temporary tables are dropped later: %s", error)

    def isolate(self, transaction: Transaction, isolation: Isolation) -> None:
        """Give a transaction that has read and written nothing yet a view of an isolation level."""
        store, before = self.store, getattr(transaction, "workspace", None)
        if isolation == "read committed":
            transaction.workspace = Workspace(store, self.locks, transaction)
        else:
            transaction.workspace = SnapshotTransaction(
                store, self.locks, transaction, serializable=isolation == "serializable"
            )
        if before is not None:
            transaction.workspace.memory = before.memory
        self._bound(transaction.workspace)

    def _bound(self, workspace: Workspace) -> None:
        """Say how much of memory a transaction may take, and where it may put what is more."""
        limit = workspace.limit_bytes = MEMTABLES * self.memtable_limit_bytes
        spilling = self.store.spilling
        if spilling is not None and 0 < limit < 2 * spilling.memory_bytes:
            spilling = replace(spilling, memory_bytes=limit // 2)
        workspace.spilling = spilling

    def commit(self, transaction: Transaction, request_id: bytes = b"") -> Append | None:
        """Give the transaction its place in the log; None when it changed nothing.

        The changes are visible to others at once and the locks are free. The answer to the client
        waits for the Append, and its error says what became of the commit.

        Args:
            request_id: the client's name for the commit, under which it asks for the outcome later.

        Raises:
            SqlError: 40001, it rests on a commit that the log lost meanwhile, or began under another
                leader, or is serializable and has read what was changed since; 53400, there would be too
                many tables, with others' new ones; HP001, HP002, there was a commit with this id, or it was
                given up.
            LogError: the log takes no more commits.
        """
        workspace = transaction.workspace
        append = None
        memory = workspace.memory
        if memory is not None and memory.settings.temporary_schema:
            end_of_transaction(workspace, memory.settings.temporary_schema)
        if workspace.used:
            workspace.log_sequences()
        if workspace.records:
            if transaction.log_generation != self._log_generation:
                raise led_by_another()
            if workspace.losses != self.store.memory.losses and workspace.rests_on_loss:
                raise lost()
            if workspace.has_snapshot:
                workspace.check_reads()
            catalog = workspace.own_catalog
            if request_id:
                self.requests.check_new(request_id)
            append = self.log.append(
                LoggedTransaction(
                    now_us(),
                    workspace.records,
                    request_id,
                    workspace.encoded,
                    workspace.encoded_count,
                    workspace.spilled_records,
                )
            )
            token = self.store.push_pending(workspace.layer, catalog)
            self._pending.append(_Pending(token, append, workspace.layer, workspace.notified))
            ahead = workspace.counted_ahead
            if ahead is not None:
                self.store.counts.expect(workspace.layer, ahead)
            self.commits += 1
            if request_id:
                self.requests.began(request_id, append)
        if workspace.has_snapshot:
            workspace.release()
        workspace.let_go_of_files()
        self.locks.release_all(transaction)
        return append

    def forbid(self, request_id: bytes) -> CommitOutcome | Append | None:
        """See to it that nothing is ever committed under an id, unless that has happened already.

        Returns:
            What has become of the id: an Append is to be awaited. None when it is not known any more.

        Raises:
            LogError: the log takes no more.
        """
        found = self.requests.find(request_id)
        if found is None and self.requests.would_know(request_id):
            found = self.log.append(LoggedTransaction(now_us(), [], request_id))
            layer: Layer = {}
            self._pending.append(_Pending(self.store.push_pending(layer, None), found, layer))
            self.requests.began(request_id, found)
        return found

    def log_checksum(self, record: TablesChecksum) -> Append:
        """Give a word about the tables its place in the log; it changes nothing. LogError."""
        append = self.log.append(LoggedTransaction(now_us(), [record], b""))
        layer: Layer = {}
        self._pending.append(_Pending(self.store.push_pending(layer, None), append, layer))
        return append

    @property
    def is_full(self) -> bool:
        """Whether writers wait: more is in memory than may be, or in the log's queue."""
        return 0 < self.memtable_limit_bytes < self.store.memory.nbytes or self.log.is_full

    @property
    def memory_is_full(self) -> bool:
        """Whether more is in memory than may be: writers wait for a checkpoint."""
        return 0 < self.memtable_limit_bytes < self.store.memory.nbytes

    def room(self) -> Wait[None]:
        """What a statement that writes awaits, before it begins, while :attr:`is_full`.

        It fails with a SqlError when the checkpoint that would make room does.
        """
        if not self.memory_is_full:
            return self.log_room()
        wait: Wait[None] = Wait()
        self._kept_out.append(wait)
        self.memtable_full()
        return wait

    def log_room(self) -> Wait[None]:
        """What a commit awaits while the log is full."""
        wait: Wait[None] = Wait()
        self._kept_out.append(wait)

        def let_in() -> None:
            if wait in self._kept_out:
                self._kept_out.remove(wait)
            wait.resolve(None)

        self.log.when_roomy(let_in)
        return wait

    def let_writers_in(self, error: SqlError | None) -> None:
        """There is room again, or, with an error, there will be none for now."""
        waiting, self._kept_out = self._kept_out, []
        for wait in waiting:
            if error is None:
                wait.resolve(None)
            else:
                wait.fail(error)

    def checkpointed(self, failure: Exception | None) -> None:
        """A checkpoint was made, or failed: writers that wait for memory look again."""
        if not self.memory_is_full:
            self.let_writers_in(None)
        elif failure is not None:
            self.let_writers_in(store_error(failure))

    def rollback(self, transaction: Transaction) -> None:
        """Forget the transaction's changes and give back its locks."""
        if transaction.workspace.record_count:
            self.rollbacks += 1
            self.store.counts.rolled_back(transaction.workspace.records, transaction.workspace.counted_ahead)
        transaction.workspace.release()
        transaction.workspace.let_go_of_files()
        self.locks.release_all(transaction)

    def durable_of(self, position: int) -> Append | None:
        """The newest pending commit at or before ``position`` (a pending token); None: nothing is pending.

        What was pending may be durable now, or lost: ``Workspace.rests_on_loss`` tells.
        """
        if not self._pending or self._pending[0].token > position:
            return None
        newest = self._pending[0].append
        for pending in self._pending:
            if pending.token > position:
                break
            newest = pending.append
        return newest

    @property
    def pending(self) -> int:
        """How many commits have their place in the log and are not durable yet."""
        return len(self._pending)

    @property
    def catalog(self) -> Catalog:
        """The catalog that a new statement sees: committed definitions, pending ones too."""
        return self.store.visible_catalog[0]

    def acknowledge(self, appends: Sequence[Append], error: LogError | None) -> None:
        """The log's hook: these appends, in log order, are durable, or all of them failed.

        Runs in the thread that wrote the entry, before anybody who waits for them is woken.
        """
        with self._turn:
            try:
                if error is None:
                    self._apply_all(appends)
                else:
                    self._forget_all()
            except BaseException as failure:
                self.store.spoil(failure)
                raise

    def _forget_all(self) -> None:
        self.store.drop_pending()
        self.store.counts.lost()
        self._pending.clear()
        self.requests.lost()

    def _apply_all(self, appends: Sequence[Append]) -> None:
        if len(appends) == 1:
            one = self._pending.popleft()
            self._apply([one])
            self.memtable_grew()
            return
        pending = [self._pending.popleft() for _ in appends]
        for _lsn, group in itertools.groupby(pending, lambda one: one.append.lsn):
            self._apply(list(group))
        self.memtable_grew()

    def _apply(self, entry: list[_Pending]) -> None:
        """The transactions of one entry are durable."""
        lsn = entry[0].append.lsn
        assert lsn is not None
        named, loads, applied = [], [], []
        newest_us = 0
        for one in entry:
            logged = one.append.transaction
            newest_us = max(newest_us, logged.timestamp_us)
            applied.append((logged.records, one.layer))
            if logged.request_id:
                named.append(outcome_of(lsn, logged))
            load = loaded_by(lsn, logged)
            if load is not None:
                loads.append(load)
        self.store.apply_entry(lsn, applied, named, loads, newest_us)
        self.store.pop_pending(entry[-1].token)
        for outcome in named:
            self.requests.ended(outcome.request_id)
        for one in entry:
            if one.notified is not None:
                self.notifications.publish(one.notified.sent)


def led_by_another() -> SqlError:
    """The error of a client whose transaction was open when the leader changed: nothing of it is done."""
    return SqlError(
        "40001",
        "the leader of the tablespace changed while the transaction was open",
        hint="Run the transaction again from its start.",
    )


def lost(error: LogError | None = None) -> SqlError:
    """The error of a client whose statement rests on a commit that the log then failed to keep."""
    return SqlError(
        "40001",
        "the statement read a commit that the log then failed to make durable",
        detail=None if error is None else str(error),
        hint="Run the transaction again from its start.",
    )
