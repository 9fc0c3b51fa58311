"""Where a stream stands and how far its next batch goes: the driver's part. No Spark here.

A batch is from one transaction's end to another's, never beyond what is confirmed. An offset, as Spark
keeps it in checkpoints, names the log and carries the table's definition there. Where that is not known it
is sought: in a published snapshot, at a server, or at the beginning of a whole log, and followed through
the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from herdpy.log import START, LogClosedError, LogError, LogTrimmedError
from herdpy.log.detached import LogAddress, LogLedgers, opened
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN
from herdpy.log.published import load
from herdpy.log.records import TYPES, CreateTable, decode_record
from herdpy_spark.access import AccessError, SparkDatabase
from herdpy_spark.feed.stretches import LogStretch, Skimmer, frames
from herdpy_spark.feed.table import DEFINING, FollowedTable, Shapes, published_table
from herdpy_spark.log.entries import bounds, read, time_position, transaction_end
from herdpy_spark.log.plan import LogPlan, NoSuchTableError, PartitionedTableError, plan_table
from herdpy_spark.options import OptionError, Position
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table, encode_table

_NOT_SUPPORTED = "0A000"
"""What servers say of a partitioned table."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a log.

    Attributes:
        lsn: the end of a transaction, or a log's base.
        log_id: of the log.
        definition: of the table there, the catalog's JSON; empty where no table has the name.
    """

    lsn: LSN
    log_id: str
    definition: str = ""

    @classmethod
    def of(cls, lsn: LSN, log_id: str, table: Table | None) -> Offset:
        """The offset at a position with that table."""
        return cls(lsn, log_id, encode_table(table).decode() if table is not None else "")

    @property
    def table(self) -> Table | None:
        """The table's definition."""
        return decode_table(self.definition.encode()) if self.definition else None

    def to_json(self) -> dict[str, Any]:
        """As Spark takes offsets: numbers and texts, always the same for the same position."""
        return {
            "ledger": self.lsn.ledger_id,
            "entry": self.lsn.entry_id,
            "log": self.log_id,
            "table": self.definition,
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Offset:
        """The inverse; ValueError when it is no offset of a feed."""
        try:
            return cls(LSN(int(given["ledger"]), int(given["entry"])), str(given["log"]), str(given["table"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an offset of a change feed: {given}") from error


class DefinitionUnknownError(LogError):
    """Nobody knows any more what the table was at a position of the log."""


class Described(NamedTuple):
    """What a server says: the table, and the position up to which it has applied."""

    table: Table
    at: LSN


def table_at(
    address: LogAddress, ledgers: LogLedgers, name: str, at: LSN, describe: Callable[[], Described | None]
) -> Table | None:
    """The table of this name at a position; None: there was none.

    Args:
        at: a transaction's end, or the log's base.
        describe: asks a server; None: it knows no such table, or there is none to ask.

    Raises:
        DefinitionUnknownError: nobody knows.
        LogError: the log cannot be read.
    """
    if at == START:
        return None
    described = describe()
    if described is not None:
        if described.at <= at:
            return _along(ledgers, FollowedTable(name, described.table), described.at, at)
        if not _made(ledgers, described.table, at, described.at):
            return described.table
    base = ledgers.state().base
    if base == START:
        return _along(ledgers, FollowedTable(name, None), START, at)
    ref = address.newest_snapshot(at)
    if ref is not None and ref.lsn >= base:
        table = published_table(load(ref), name)
        return _along(ledgers, FollowedTable(name, table), ref.lsn, at)
    newest_known = "no server reports it" if described is None else "what is there now is younger"
    raise DefinitionUnknownError(
        f'it is not known what table "{name}" was at {at}: the log begins after {base}, no published snapshot'
        f" between the two is left, and {newest_known}. Begin later (startingOffsets=latest), or publish"
        " snapshots"
    )


def _along(ledgers: LogLedgers, followed: FollowedTable, after: LSN, upto: LSN) -> Table | None:
    """The table at ``upto``, given the one at ``after``."""
    for entry in read(ledgers, after, upto):
        for body in entry.bodies:
            for kind, start, stop in frames(body):
                if kind in DEFINING:
                    followed.see(decode_record(body[start:stop]))
    return followed.table


def _made(ledgers: LogLedgers, table: Table, after: LSN, upto: LSN) -> bool:
    """Whether this table came to be between the two."""
    for entry in read(ledgers, after, upto):
        for body in entry.bodies:
            for kind, start, stop in frames(body):
                if kind == TYPES[CreateTable]:
                    record = decode_record(body[start:stop])
                    assert isinstance(record, CreateTable)
                    if decode_table(record.definition).id == table.id:
                        return True
    return False


MOST_PARTITIONS = 16
LEAST_CHANGES = 20_000
"""Fewer are not worth a task of their own."""


@dataclass(frozen=True, slots=True)
class SnapshotTask:
    """A part of the table at the end of a batch that is a state; it can be pickled.

    Attributes:
        at: where the batch ends.
        plan: how the table is read; None: there was none.
        number: of the plan's partition.
        is_first: nothing went before the state, and nothing of it needs to go.
    """

    at: LSN
    plan: LogPlan | None
    number: int
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class StretchTask:
    """A stretch of the log to read; it can be pickled."""

    address: LogAddress
    table: str
    stretch: LogStretch


class SkimmedBatch(NamedTuple):
    """What a batch is, by the log's records.

    Attributes:
        offset_lsn: where it ends.
        table: the definition there.
        stretches: what tasks read.
        is_state: the rows at the end take the place of the changes.
    """

    offset_lsn: LSN
    table: Table | None
    stretches: list[LogStretch]
    is_state: bool = False


class FeedDriver:
    """A stream of one table's changes.

    Args:
        shapes: the columns of the stream.
        on_trimmed: "error", or "snapshot": where changes are gone the table's rows take their place.
        partitions: the most tasks of a batch; None: as many as are of use.

    Attributes:
        newest: the end of the log when the newest batch was planned, of whole transactions.
        behind: how many entries of the log were after that batch then.
    """

    def __init__(
        self,
        database: SparkDatabase,
        table: str,
        shapes: Shapes,
        *,
        on_trimmed: str = "error",
        partitions: int | None = None,
    ) -> None:
        self._database = database
        self._address = database.address()
        self._name = table
        self._shapes = shapes
        self._on_trimmed = on_trimmed
        self._partitions = partitions or MOST_PARTITIONS
        self._planned: tuple[LSN, LSN, SkimmedBatch] | None = None
        self._target: LSN | None = None
        self.newest: LSN | None = None
        self.behind: int | None = None

    def first(self, starting: Position) -> Offset:
        """Where a new stream begins.

        Raises:
            OptionError: the log has no such position.
            LogTrimmedError, DefinitionUnknownError: what is needed is gone.
            LogError: the log cannot be read.
        """
        with opened(self._address) as ledgers:
            state = ledgers.state()
            at = self._starting(ledgers, state, starting)
            if at < state.base:
                if self._on_trimmed == "error":
                    raise LogTrimmedError(self._trimmed(at, state))
                return Offset(at, state.log_id)
            return Offset.of(at, state.log_id, self._table_at(ledgers, at))

    def state(self) -> tuple[Offset, Sequence[SnapshotTask]]:
        """The table as it is now, and where a stream goes on from it.

        Raises:
            DefinitionUnknownError: it is not known what the table is.
            LogError: neither the log nor a published snapshot reaches back far enough.
        """
        with opened(self._address) as ledgers:
            at = self._end(ledgers)
            offset = Offset.of(at, ledgers.state().log_id, self._table_at(ledgers, at))
        return offset, [replace(one, is_first=True) for one in self._state_tasks(at)]

    def freeze(self) -> None:
        """From here on the stream ends at what is confirmed now."""
        with opened(self._address) as ledgers:
            self._target = transaction_end(ledgers, ledgers.confirmed())

    def next(self, start: Offset, most_entries: int | None) -> Offset:
        """The end of the batch that begins at ``start``: ``start`` itself where nothing is new.

        Args:
            most_entries: how many entries of the log it has at most; a transaction is never cut.
        """
        with opened(self._address) as ledgers:
            state = ledgers.state()
            self._check_log(start, state)
            end = self._end(ledgers)
            if start.lsn < state.base:
                found = self._after_snapshot(start, state, end)
            elif end <= start.lsn:
                found = start
            else:
                batch = self._skim(ledgers, start, end, most_entries)
                self._planned = (start.lsn, batch.offset_lsn, batch)
                found = Offset.of(batch.offset_lsn, state.log_id, batch.table)
            self.behind = entries_between(state, found.lsn, self.newest or end)
            return found

    def tasks(self, start: Offset, end: Offset) -> Sequence[StretchTask | SnapshotTask]:
        """What tasks read for the batch."""
        if start.lsn == end.lsn:
            return []
        planned = self._planned
        if planned is None or planned[:2] != (start.lsn, end.lsn):
            with opened(self._address) as ledgers:
                state = ledgers.state()
                self._check_log(start, state)
                if start.lsn < state.base:
                    return self._snapshot_tasks(start, end, state)
                planned = (start.lsn, end.lsn, self._skim(ledgers, start, end.lsn, None))
        batch = planned[2]
        if batch.is_state:
            return self._state_tasks(end.lsn)
        return [StretchTask(self._address, self._name, stretch) for stretch in batch.stretches]

    # Positions.

    def _starting(self, ledgers: LogLedgers, state: LedgerListState, starting: Position) -> LSN:
        if starting == "earliest":
            return START if self._on_trimmed == "snapshot" else state.base
        end = transaction_end(ledgers, ledgers.confirmed())
        if starting == "latest":
            return end
        if isinstance(starting, LSN):
            if starting > end:
                raise OptionError(
                    f"the option startingOffsets: the log ends at {end}, it has no {starting} yet"
                )
            return starting if starting <= state.base else transaction_end(ledgers, starting)
        assert isinstance(starting, int)
        try:
            return time_position(ledgers, starting)
        except LogTrimmedError:
            if self._on_trimmed == "error":
                raise
            return START

    def _end(self, ledgers: LogLedgers) -> LSN:
        end = transaction_end(ledgers, ledgers.confirmed())
        self.newest = end
        return end if self._target is None else min(end, self._target)

    def _skim(self, ledgers: LogLedgers, start: Offset, end: LSN, most_entries: int | None) -> SkimmedBatch:
        """The batch that begins at ``start``."""
        table = start.table
        skimmer = Skimmer(FollowedTable(self._name, table), start.lsn)
        fits = self._fits(table)
        with closing(read(ledgers, start.lsn, end)) as entries:
            for entry in entries:
                before = skimmer.lsn
                skimmer.take(entry)
                if skimmer.followed.renamed:
                    if before > start.lsn:
                        return self._skim(ledgers, start, before, None)
                    if skimmer.lsn == entry.lsn:
                        return SkimmedBatch(entry.lsn, skimmer.followed.table, [], is_state=True)
                    continue
                if skimmer.followed.table is not table:
                    if _is_partitioned(skimmer.followed.table):
                        if before > start.lsn:  # what went before is delivered first
                            return self._skim(ledgers, start, before, None)
                        raise self._partitioned()
                    table, fitted = skimmer.followed.table, fits
                    fits = self._fits(table)
                    if fitted and not fits and before > start.lsn:
                        # What went before is delivered first: rows of the new table will end the stream.
                        return self._skim(ledgers, start, before, None)
                    if not fits and skimmer.lsn == entry.lsn:
                        break
                if most_entries is not None and skimmer.entries >= most_entries:
                    break
        stretches = skimmer.stretches(self._partitions, LEAST_CHANGES)
        return SkimmedBatch(skimmer.lsn, skimmer.followed.table, stretches)

    def _fits(self, table: Table | None) -> bool:
        return table is None or self._shapes.misfit(table) is None

    # What is known.

    def _table_at(self, ledgers: LogLedgers, at: LSN) -> Table | None:
        found = table_at(self._address, ledgers, self._name, at, lambda: describe(self._database, self._name))
        if _is_partitioned(found):
            raise self._partitioned(at)
        return found

    def _partitioned(self, at: LSN | None = None) -> PartitionedTableError:
        return partitioned_error(self._address, self._name, at)

    def _check_log(self, start: Offset, state: LedgerListState) -> None:
        if start.log_id != state.log_id:
            raise LogClosedError(
                f"the stream was at {start.lsn} of log {start.log_id}, and {self._address} is log"
                f" {state.log_id}: the tablespace was made anew. Begin a new stream, with a new checkpoint"
            )

    def _trimmed(self, at: LSN, state: LedgerListState) -> str:
        return (
            f"the entries after {at} are trimmed, {self._address} begins after {state.base}: changes in"
            " between cannot be read any more. Set the option onTrimmed to snapshot, and the table's rows as"
            " they are published take their place; or begin a new stream with startingOffsets earliest or"
            " latest, and a new checkpoint. A stream that runs keeps what it needs, and so does one that is"
            " stopped, for as long as the option lease says"
        )

    # Where changes are gone.

    def _after_snapshot(self, start: Offset, state: LedgerListState, end: LSN) -> Offset:
        if self._on_trimmed == "error":
            raise LogTrimmedError(self._trimmed(start.lsn, state))
        # The oldest: after it most of the log's changes follow.
        ref = self._address.oldest_snapshot(state.base, end)
        if ref is None:
            raise LogTrimmedError(
                f"the entries after {start.lsn} are trimmed, {self._address} begins after {state.base}, and"
                " no snapshot from there on is published: publish one (herdpy snapshot publish)"
            )
        found = published_table(load(ref), self._name)
        if _is_partitioned(found):
            raise self._partitioned(ref.lsn)
        return Offset.of(ref.lsn, state.log_id, found)

    def _snapshot_tasks(self, start: Offset, end: Offset, state: LedgerListState) -> list[SnapshotTask]:
        if self._on_trimmed == "error":
            raise LogTrimmedError(self._trimmed(start.lsn, state))
        return self._state_tasks(end.lsn)

    def _state_tasks(self, at: LSN) -> list[SnapshotTask]:
        try:
            plan = plan_table(self._address, self._name, at, self._partitions)
        except NoSuchTableError:
            return [SnapshotTask(at, None, 0)]
        return [SnapshotTask(at, plan, number) for number in range(len(plan.ranges))]


def partitioned_error(address: LogAddress, name: str, at: LSN | None = None) -> PartitionedTableError:
    """Why it cannot be followed; with its partitions at ``at`` (None: now), if the log tells them."""
    try:
        plan_table(address, name, at)
    except PartitionedTableError as error:
        return error
    except LogError:
        pass
    return PartitionedTableError.of(name)


def _is_partitioned(table: Table | None) -> bool:
    """Whether it has no rows, and its partitions have the changes."""
    return table is not None and table.partition_key is not None


def entries_between(state: LedgerListState, after: LSN, upto: LSN) -> int:
    """How many entries the log has after one position, up to another."""
    count = 0
    for ledger in state.ledgers:
        if after.ledger_id <= ledger.ledger_id <= upto.ledger_id:
            first = after.entry_id + 1 if ledger.ledger_id == after.ledger_id else 0
            last = upto.entry_id if ledger.ledger_id == upto.ledger_id else ledger.last_entry_id
            count += max(0, last + 1 - first)
    return count


def describe(database: SparkDatabase, name: str) -> Described | None:
    """The table as a server has it; None: no server answers, or it has none of that name now.

    Of a directory's database: as its checkpoint has it, unless its log is whole, which says more.
    """
    if database.directory is not None:
        return _checkpointed(database, database.directory, name)
    if database.servers is None:
        return None
    try:
        found = database.servers.describe(name)
    except AccessError as error:
        if _is_refused(error):
            raise
        return None
    return None if found.table is None else Described(found.table, found.applied)


def _checkpointed(database: SparkDatabase, directory: str, name: str) -> Described | None:
    if bounds(database.address()).base == START:
        return None
    from herdpy_spark.directory import publish

    ref = publish(directory).ref
    found = published_table(load(ref), name)
    return None if found is None else Described(found, ref.lsn)


def _is_refused(error: AccessError) -> bool:
    """Whether the role may not, rather than a server that cannot say (it is away, or older)."""
    return error.sqlstate.startswith("28") or error.sqlstate == "42501"


def newest_table(database: SparkDatabase, name: str) -> Table | None:
    """The table as it is now; None: there is none of that name. Errors as :meth:`FeedDriver.first`.

    PartitionedTableError, or a server's AccessError (0A000): it is a partitioned table.
    """
    if database.servers is not None:
        try:
            return database.table(name)
        except AccessError as error:
            if error.is_gone:
                return None
            if _is_refused(error) or error.sqlstate == _NOT_SUPPORTED:
                raise
    address = database.address()
    with opened(address) as ledgers:
        end = transaction_end(ledgers, ledgers.confirmed())
        found = table_at(address, ledgers, name, end, lambda: describe(database, name))
    if _is_partitioned(found):
        raise partitioned_error(address, name)
    return found
