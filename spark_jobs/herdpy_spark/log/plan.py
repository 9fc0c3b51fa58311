"""A read of a table at one LSN, planned: which snapshot, which entries of the log, which ranges of keys.

Above ``history``; the driver makes a plan, tasks get it pickled and read its partitions. Every
partition stands on the same LSN, whatever is committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from herdpy.codec.kinds import Datum
from herdpy.log import LSN, START, ChainError, LogError, LogTrimmedError
from herdpy.log.detached import LogAddress, LogLedgers, confirmed_from, opened
from herdpy.log.published import PublishedManifest, SnapshotFile, SnapshotRef, SnapshotTable, load
from herdpy_spark.log.entries import read, time_position, transaction_end
from herdpy_spark.log.history import KeyRange, Span, TableHistories, TableHistory, cut, sample_loads, shape_of
from herdpy_sql.partition_texts import partitions_named

_FILES_A_RANGE = 4
_LOADS_MATTER = 4


class NoSuchTableError(LogError):
    """The tablespace has no table of that name at that LSN."""


class PartitionedTableError(LogError):
    """The name means a partitioned table at that LSN: a definition, whose partitions have the rows."""

    @classmethod
    def of(cls, name: str, partitions: Sequence[tuple[str, str]] | None = None) -> PartitionedTableError:
        """The error; ``partitions``: schema and name of each, where they are known."""
        known = "" if partitions is None else f" ({partitions_named(partitions)})"
        return cls(f'"{name}" is a partitioned table: read its partitions{known}')


class NoSuchPositionError(LogError):
    """The log does not have the position: it is not confirmed (yet), or was never one."""


@dataclass(frozen=True, slots=True)
class LogPlan:
    """A table at one LSN, in partitions. It can be pickled.

    Attributes:
        table: its name.
        definition: of the table, as the catalog's JSON has it at the LSN.
        snapshot, files: what is read of a published snapshot; nothing where no row of it can be left.
        spans: the entries of the log that are read, because they change the table.
        after, upto: what the plan needs of the log: a lease must keep the entries after ``after``, and the
            snapshot at it. ``upto`` is the LSN that is read at.
        ranges: of encoded keys, one for each partition; the empty table has one, too.
    """

    address: LogAddress
    table: str
    definition: bytes
    snapshot: SnapshotRef | None
    files: tuple[SnapshotFile, ...]
    spans: tuple[Span, ...]
    after: LSN
    upto: LSN
    ranges: tuple[KeyRange, ...]

    @property
    def schema(self) -> pa.Schema:
        """Of the columns that ``SELECT *`` shows."""
        shape = shape_of(self.definition)
        return shape.projected(shape.visible)


def plan_table(
    address: LogAddress,
    table: str,
    at: LSN | int | None = None,
    partitions: int = 1,
    *,
    low: Sequence[Datum] | None = None,
    high: Sequence[Datum] | None = None,
    least: LSN = START,
) -> LogPlan:
    """Plan to read a table.

    Args:
        at: an LSN; or a time, microseconds since 1970-01-01 UTC; or None: as new as is confirmed.
        least: with ``at`` None: wait until so much is confirmed; a server has said that it is durable.
        partitions: so many ranges of keys at most.
        low, high: only rows whose keys, in the key's order, are at or after the first and before the second.
            They are values of the first columns of the key, perhaps not of all.

    Raises:
        NoSuchTableError: there is no such table at that LSN.
        PartitionedTableError: it is a partitioned table there, which has no rows of its own.
        NoSuchPositionError: the log does not reach ``at`` yet, or has no such position.
        LogTrimmedError: the log does not reach back to ``at``, nor does a snapshot.
        DamagedSnapshotError, PlaceError: the newest snapshot before it cannot be read.
        CorruptLedgerError, ChainError, RecordError: the log is damaged.
        LogUnavailableError: ZooKeeper or the bookies did not answer for a while.
        ValueError: ``low`` or ``high`` does not fit the key.
    """
    return plan_tables(address, [table], at, partitions, low=low, high=high, least=least)[0]


def plan_tables(
    address: LogAddress,
    tables: Sequence[str],
    at: LSN | int | None = None,
    partitions: int = 1,
    *,
    low: Sequence[Datum] | None = None,
    high: Sequence[Datum] | None = None,
    least: LSN = START,
) -> list[LogPlan]:
    """As ``plan_table``, several tables at the same LSN."""
    wanted = _Wanted(address, partitions, low, high)
    if isinstance(at, LSN) and (ref := _published_at(address, at)) is not None:
        manifest = load(ref)
        histories = TableHistories(manifest.tables, at, manifest.crc, manifest.temporary)
        return [wanted.plan(name, histories, None, ref, at, at) for name in tables]
    with opened(address) as ledgers:
        upto = _resolved(address, ledgers, at, least)
        ref, manifest_ = _snapshot_before(address, ledgers, upto)
        after, crc = (START, None) if manifest_ is None else (manifest_.lsn, manifest_.crc)
        histories = (
            TableHistories((), after, crc)
            if manifest_ is None
            else TableHistories(manifest_.tables, after, crc, manifest_.temporary)
        )
        for entry in read(ledgers, after, upto, crc=crc):
            histories.take(entry)
        return [wanted.plan(name, histories, ledgers, ref, after, upto) for name in tables]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How tables are read."""

    address: LogAddress
    partitions: int
    low: Sequence[Datum] | None
    high: Sequence[Datum] | None

    def plan(
        self,
        name: str,
        histories: TableHistories,
        ledgers: LogLedgers | None,
        ref: SnapshotRef | None,
        after: LSN,
        upto: LSN,
    ) -> LogPlan:
        history = histories.named(name)
        if history is None:
            raise NoSuchTableError(f"{self.address.tablespace} has no table {name} at {upto}")
        if (partitions := histories.partitions(history)) is not None:
            raise PartitionedTableError.of(name, partitions)
        files = () if history.base is None else history.base.files
        return LogPlan(
            address=self.address,
            table=name,
            definition=history.definition,
            snapshot=ref if files else None,
            files=files,
            spans=history.spans,
            after=after,
            upto=upto,
            ranges=self._ranges(history, ledgers),
        )

    def _ranges(self, history: TableHistory, ledgers: LogLedgers | None) -> tuple[KeyRange, ...]:
        codec = shape_of(history.definition).table.key_codec
        low = None if self.low is None else codec.encode_prefix(self.low)
        high = None if self.high is None else codec.encode_prefix(self.high)
        points: list[tuple[bytes, float]] = []
        if self.partitions > 1:
            points = _points(history.base, self.partitions)
            base_rows = 0 if history.base is None else history.base.rows
            loaded = sum(record.rows for record, _ in history.loads)
            if ledgers is not None and loaded * _LOADS_MATTER > base_rows:
                sample_loads(ledgers, history)
            points += history.sample.points
        return cut(points, self.partitions, low, high) or ((b"", b""),)


def _points(base: SnapshotTable | None, partitions: int) -> list[tuple[bytes, float]]:
    """Keys of the snapshot, each with how many rows follow it up to the next one."""
    if base is None:
        return []
    if len(base.files) >= _FILES_A_RANGE * partitions:
        return [(file.first_key, file.rows) for file in base.files]  # so that nobody reads half a file
    return [(key, base.rows / len(base.quantiles)) for key in base.quantiles]


def _published_at(address: LogAddress, lsn: LSN) -> SnapshotRef | None:
    """The snapshot at exactly this LSN: then the log itself is not needed."""
    ref = address.newest_snapshot(lsn)
    return ref if ref is not None and ref.lsn == lsn else None


def _resolved(address: LogAddress, ledgers: LogLedgers, at: LSN | int | None, least: LSN) -> LSN:
    """The LSN that is read at."""
    if at is None:
        return transaction_end(ledgers, confirmed_from(ledgers, least))
    if isinstance(at, LSN):
        _check_position(address, ledgers, at, ledgers.confirmed())
        return at
    try:
        return time_position(ledgers, at)
    except LogTrimmedError:
        # Nothing in the log is as old; but a snapshot where it begins may be of that time.
        base = ledgers.state().base
        ref = address.newest_snapshot(base, at)
        if ref is None or ref.lsn != base:
            raise
        return base


def _check_position(address: LogAddress, ledgers: LogLedgers, at: LSN, confirmed: LSN) -> None:
    state = ledgers.state()
    if at > confirmed:
        raise NoSuchPositionError(f"{address} is confirmed up to {confirmed}, and has no {at} yet")
    if at < state.base:
        raise LogTrimmedError(
            f"{address} begins after {state.base}, and no snapshot is published at {at}: name a later one"
        )
    ends = {one.ledger_id: one.last_entry_id if one.closed else at.entry_id for one in state.ledgers}
    if at != state.base and not 0 <= at.entry_id <= ends.get(at.ledger_id, -1):
        raise NoSuchPositionError(f"{address} has no entry {at}")


def _snapshot_before(
    address: LogAddress, ledgers: LogLedgers, upto: LSN
) -> tuple[SnapshotRef | None, PublishedManifest | None]:
    """The newest snapshot that holds nothing after ``upto``, from which the log goes on."""
    state = ledgers.state()
    ref = address.newest_snapshot(upto)
    if ref is None:
        if state.base == START:
            return None, None
        where = address.snapshot_url or "anywhere: the tablespace has no snapshot_url"
        raise LogTrimmedError(
            f"{address} begins after {state.base}, and no snapshot up to {upto} is published at {where}: "
            "publish one (herdpy snapshot publish), name a later position, or read from a replica"
        )
    manifest = load(ref)
    if manifest.log_id != state.log_id:
        raise ChainError(f"snapshot {ref} is of another log ({manifest.log_id}) than {address}")
    if ref.lsn < state.base and ref.lsn != upto:
        raise LogTrimmedError(
            f"{address} begins after {state.base}, and the newest snapshot up to {upto} is at {ref.lsn}: the "
            "entries between them are gone; name a later position, or read from a replica"
        )
    return ref, manifest
