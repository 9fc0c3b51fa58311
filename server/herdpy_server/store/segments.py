"""Store layer, inside: the segments of a store, and which of them are columns of what the tables hold now.

Above ``segment_file``, below ``columns`` and ``store``. Segments lie in the directory ``columns`` beside
LMDB's file, ``t<ID>-<NAME>.columns`` each. Two parts have to do with them:

* ``SegmentFiles`` writes one and finds one for a question. The process that has the store open has it, and so
  has each of its workers; they do not talk about it, they look into the directory.
* ``SegmentKeeper`` is only in the process that writes LMDB. It writes down which keys later checkpoints
  changed, in ``t<ID>-<NAME>.changes`` beside a segment, and removes what is of no use any more.

A segment says what its table held (``Stamp``: rows and checksum), and each record of the changes says from
which stamp to which it led. So a segment is used only where the records lead from its stamp to the stamp that
the read state of LMDB has for the table; and no order of writes, lost write or kill can make a wrong one fit.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from herdpy.codec.arrow_bytes import images_to_batch
from herdpy.log.lsn import LSN
from herdpy_server.store import segment_file
from herdpy_server.store.disk import Checksums, Disk
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.layers import Chain
from herdpy_server.store.segment_file import (
    SegmentDamagedError,
    SegmentDraft,
    SegmentFile,
    SegmentFooter,
    Stamp,
)
from herdpy_sql.catalog import Catalog, Table

logger = logging.getLogger("herdpy.columns")

DIRECTORY = "columns"
LEAST_ROWS = 20_000
"""A table of fewer rows is decoded sooner than anything is looked up."""
_COLUMNS, _CHANGES, _PARTIAL = ".columns", ".changes", ".partial"
_FEW_KEYS = 2000
_PART = 50
_HEAD = struct.Struct("<QQ")  # bytes of a record of changes, and its XXH3-64
_PAUSE_S = 10.0
_SHARE = 20  # a segment is written in at most so small a part of the time
_ABANDONED_S = 600.0


def worn_after(rows: int) -> int:
    """How many changed keys make columns of so many rows not worth patching."""
    return max(_FEW_KEYS, rows // _PART)


class FoundColumns(NamedTuple):
    """Columns out of a segment, and the keys whose rows may be others in the state that was asked of."""

    blocks: list[pa.RecordBatch]
    changed: list[bytes]


class SegmentFiles:
    """The segments of one store; for any thread.

    Attributes:
        directory: where they lie.
        limit_bytes: how large all of them may be.
        least_rows: tables with fewer rows have none.
        last_used: when (time.monotonic) columns of a table were asked for, by its id.
    """

    def __init__(self, disk: Disk, limit_bytes: int) -> None:
        self.directory = disk.path / DIRECTORY
        self.limit_bytes = limit_bytes
        self.least_rows = LEAST_ROWS
        self._disk = disk
        self.last_used: dict[int, float] = {}
        self._not_before: dict[int, float] = {}

    def used(self, tables: Iterable[int]) -> None:
        """Columns of these tables are asked for."""
        now = time.monotonic()
        for table in tables:
            self.last_used[table] = now

    def find(self, view: DiskView, table: Table, positions: Sequence[int]) -> FoundColumns | None:
        """The columns at these positions as they are in a state of LMDB; None when no segment has them."""
        stamp: Stamp | None = None
        for path in self._paths(table.id):
            try:
                file = SegmentFile(path)
                footer = file.footer
                if not self._is_of(footer, table) or not set(positions) <= set(footer.positions):
                    continue
                if stamp is None:
                    stamp = Stamp(*self._disk.contents(view)[1].get(table.id, (0, 0)))
                changed = changed_between(footer, path, stamp)
                if changed is not None:
                    return FoundColumns(
                        file.blocks(kept_form(table, positions, []).schema, positions), changed
                    )
            except SegmentDamagedError as error:
                logger.warning("%s: removed, the columns are read from the rows", error)
                path.unlink(missing_ok=True)
            except (OSError, pa.ArrowException) as error:
                logger.info("%s is not used: %s", path, error)
        return None

    def _paths(self, table_id: int) -> list[Path]:
        """Segments of a table, the newest first."""
        return sorted(self.directory.glob(f"{_prefix(table_id)}*{_COLUMNS}"), key=_modified, reverse=True)

    def _is_of(self, footer: SegmentFooter, table: Table) -> bool:
        return (
            footer.store == self._disk.uuid
            and footer.table == table.id
            and footer.definition == _definition(table)
        )

    def fits(self, footer: SegmentFooter, catalog: Catalog) -> bool:
        """Whether it is of this store, and of a table as the catalog defines it."""
        table = catalog.tables.get(footer.table)
        return table is not None and self._is_of(footer, table)

    def stamp(self, view: DiskView, table: Table) -> tuple[LSN, Stamp]:
        """The position of a state of LMDB, and what the table holds in it."""
        lsn, checksums = self._disk.contents(view)
        return lsn, Stamp(*checksums.get(table.id, (0, 0)))

    def may_write(self, table: Table, rows: int, nbytes: int) -> bool:
        """Whether columns of the table are worth a segment, and one was not written only just now."""
        return (
            self.limit_bytes >= nbytes
            and rows >= self.least_rows
            and not table.is_temporary
            and time.monotonic() >= self._not_before.get(table.id, 0.0)
        )

    def write(self, draft: SegmentDraft) -> Path | None:
        """Write a segment; None when that fails, which costs nobody more than time."""
        began = time.monotonic()
        name = _prefix(draft.table.id) + secrets.token_hex(8)
        partial, target = self.directory / (name + _PARTIAL), self.directory / (name + _COLUMNS)
        try:
            self.directory.mkdir(exist_ok=True)
            nbytes = segment_file.write(draft, self._disk.uuid, _definition(draft.table), partial, target)
        except OSError as error:
            logger.warning("the columns of table %s are not kept in a file: %s", draft.table.name, error)
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            return None
        finally:
            took_s = time.monotonic() - began
            self._not_before[draft.table.id] = began + took_s + max(_PAUSE_S, _SHARE * took_s)
        logger.info(
            "columns of table %s as of %s are in %s: %d rows, %d bytes, %.0f ms",
            draft.table.name, draft.lsn, target, sum(b.num_rows for b in draft.blocks), nbytes, took_s * 1000,
        )  # fmt: skip
        return target


def _prefix(table_id: int) -> str:
    return f"t{table_id}-"


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def decoded(
    table: Table, positions: Sequence[int], images: Sequence[bytes], *, short_decimals: bool = False
) -> pa.RecordBatch:
    """Columns of row images; ``short_decimals`` as of ``images_to_batch``."""
    names = [table.columns[at].name for at in positions]
    precisions = [table.columns[at].type.precision for at in positions]
    return images_to_batch(table.fields, names, positions, images, precisions, short_decimals=short_decimals)


def kept_form(table: Table, positions: Sequence[int], images: Sequence[bytes]) -> pa.RecordBatch:
    """Columns of row images as they are kept, in memory and in segments: what DuckDB takes without a copy."""
    return decoded(table, positions, images, short_decimals=True)


def _definition(table: Table) -> str:
    return segment_file.definition_digest(table, kept_form(table, range(len(table.columns)), []).schema)


class _Changes(NamedTuple):
    """One checkpoint's changes of a table: from which stamp to which, by which keys."""

    before: Stamp
    after: Stamp
    keys: list[bytes]


def _record(changes: _Changes) -> bytes:
    body = msgspec.msgpack.encode(changes)
    return _HEAD.pack(len(body), xxh3_64_intdigest(body)) + body


def _records(path: Path) -> Iterator[_Changes]:
    """The records of a file of changes, up to the first that is not whole; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    at = 0
    while len(data) - at >= _HEAD.size:
        nbytes, checksum = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + nbytes]
        if len(body) != nbytes or xxh3_64_intdigest(body) != checksum:
            return
        try:
            changes = msgspec.msgpack.decode(body, type=_Changes)
        except msgspec.MsgspecError:  # of another version
            return
        yield changes
        at += _HEAD.size + nbytes


def changed_between(footer: SegmentFooter, path: Path, stamp: Stamp) -> list[bytes] | None:
    """The keys by which a segment may differ from a table that holds ``stamp``; None: nobody knows.

    The keys are those of all records, so there may be too many, but never too few.
    """
    reached = footer.stamp
    known = reached == stamp
    keys = list(footer.changed)
    for changes in _records(path.with_suffix(_CHANGES)):
        if changes.before != reached:
            return None
        reached = changes.after
        known |= reached == stamp
        keys += changes.keys
    return keys if known else None


@dataclass(slots=True)
class _Kept:
    """A segment that holds with its changes; ``count`` keys of them."""

    path: Path
    footer: SegmentFooter
    nbytes: int
    count: int

    @property
    def changes(self) -> Path:
        return self.path.with_suffix(_CHANGES)

    @property
    def rows(self) -> int:
        return sum(self.footer.block_rows)


@dataclass(slots=True)
class _Track:
    """The newest changes of a table, without a gap, for a segment that may come of a state before them."""

    changes: deque[_Changes] = field(default_factory=deque)
    count: int = 0

    def add(self, changes: _Changes) -> None:
        self.changes.append(changes)
        self.count += len(changes.keys)
        while self.count > worn_after(changes.after.rows):
            self.count -= len(self.changes.popleft().keys)

    def since(self, stamp: Stamp) -> list[_Changes]:
        """What came after the table last held ``stamp``; nothing when that is not known."""
        for nth in reversed(range(len(self.changes))):
            if self.changes[nth].before == stamp:
                return list(self.changes)[nth:]
        return []


class SegmentKeeper:
    """Keeps the changes of segments, and removes those that do not hold any more. For the writer of LMDB.

    ``flushed`` and ``tend`` do I/O and are for the threads that checkpoint.
    What the disk refuses costs a segment, never a checkpoint.

    Attributes:
        files: where they lie.
    """

    def __init__(self, files: SegmentFiles, checksums: Checksums, catalog: Catalog) -> None:
        """``checksums`` and ``catalog``: as LMDB has them. What is found and does not hold is removed."""
        self.files = files
        self._checksums = checksums
        self._catalog = catalog
        self._lock = threading.Lock()
        self._kept: dict[int, _Kept] = {}
        self._tracks: dict[int, _Track] = {}
        try:
            for path in files.directory.glob(f"*{_PARTIAL}"):
                _remove(path)
            self.tend()
        except OSError as error:
            logger.warning("columns of tables are not kept in files: %s", error)

    @property
    def nbytes(self) -> int:
        """How large the segments are that hold."""
        return sum(kept.nbytes for kept in tuple(self._kept.values()))

    @property
    def tables(self) -> list[int]:
        """The ids of the tables that have one."""
        return list(self._kept)

    # After a checkpoint.

    def flushed(self, frozen: Mapping[int, Chain], checksums: Checksums, catalog: Catalog) -> None:
        """LMDB has these changes, and with them these checksums and definitions."""
        with self._lock:
            before, self._checksums = self._checksums, checksums
            redefined, self._catalog = catalog is not self._catalog, catalog
            for table in self._kept.keys() | self._tracks.keys() | dict(self.files.last_used).keys():
                if table not in checksums:
                    self._forget(table)
                elif table in frozen:
                    self._changed(table, frozen[table], Stamp(*before.get(table, (0, 0))))
            if redefined:
                for table, kept in list(self._kept.items()):
                    if not self.files.fits(kept.footer, catalog):
                        self._drop(table)

    def _changed(self, table: int, chain: Chain, before: Stamp) -> None:
        after = Stamp(*self._checksums[table])
        if any(delta.cleared or delta.is_large for delta in chain):
            self._tracks.pop(table, None)
            self._drop(table)
            return
        changes = _Changes(before, after, list({key for delta in chain for key in delta.rows}))
        self._tracks.setdefault(table, _Track()).add(changes)
        kept = self._kept.get(table)
        if kept is None:
            return
        kept.count += len(changes.keys)
        if kept.count > worn_after(kept.rows):
            self._drop(table)
            return
        try:
            with kept.changes.open("ab") as file:
                file.write(_record(changes))
        except OSError as error:
            logger.warning("changes of %s cannot be written, it is removed: %s", kept.path, error)
            self._drop(table)

    # Now and then.

    def tend(self) -> None:
        """Take up the segments that were written since, and keep all within the limit."""
        with self._lock:
            try:
                names = set(os.listdir(self.files.directory))
            except FileNotFoundError:
                names = set()
            for table, kept in list(self._kept.items()):
                if kept.path.name not in names:
                    self._drop(table)
            known = {kept.path.name for kept in self._kept.values()}
            known |= {kept.changes.name for kept in self._kept.values()}
            paths = [self.files.directory / name for name in names - known]
            for path in sorted(paths, key=_modified):
                if path.suffix == _COLUMNS:
                    self._take_up(path)
                elif path.suffix == _PARTIAL and time.time() - _modified(path) / 1e9 > _ABANDONED_S:
                    _remove(path)
            self._sweep_changes()
            self._keep_within()

    def _sweep_changes(self) -> None:
        """Remove changes of segments that are not there."""
        wanted = {kept.changes for kept in self._kept.values()}
        for path in self.files.directory.glob(f"*{_CHANGES}"):
            if path not in wanted:
                _remove(path)

    def _take_up(self, path: Path) -> None:
        try:
            file = SegmentFile(path)
            footer = file.footer
            is_good = path.name.startswith(_prefix(footer.table)) and self.files.fits(footer, self._catalog)
            count = self._joined(footer, path) if is_good else None
        except (SegmentDamagedError, OSError) as error:
            logger.warning("%s is removed: %s", path, error)
            count = None
        if count is None:
            _remove(path.with_suffix(_CHANGES))
            _remove(path)
            return
        self._drop(footer.table)
        self._kept[footer.table] = _Kept(path, footer, file.nbytes, count)
        self.files.last_used.setdefault(footer.table, time.monotonic())

    def _joined(self, footer: SegmentFooter, path: Path) -> int | None:
        """How many keys lead from a segment to what its table holds now; None when that is not known.

        Changes that are not in its file yet are written there.
        """
        stamp = Stamp(*self._checksums[footer.table])
        keys = changed_between(footer, path, stamp)
        records = list(_records(path.with_suffix(_CHANGES)))
        if keys is None:
            track = self._tracks.get(footer.table)
            records = [] if records or track is None else track.since(footer.stamp)
        if (records[-1].after if records else footer.stamp) != stamp:
            return None
        if records:  # written anew, for a torn end would hide what comes after it
            path.with_suffix(_CHANGES).write_bytes(b"".join(map(_record, records)))
        return len(footer.changed) + sum(len(changes.keys) for changes in records)

    def _keep_within(self) -> None:
        """Remove the segments that were not used for the longest time, where all are larger than they may."""
        while self.nbytes > self.files.limit_bytes:
            self._drop(min(self._kept, key=lambda table: self.files.last_used.get(table, 0.0)))

    def _forget(self, table: int) -> None:
        self._drop(table)
        self._tracks.pop(table, None)
        self.files.last_used.pop(table, None)

    def _drop(self, table: int) -> None:
        kept = self._kept.pop(table, None)
        if kept is not None:
            _remove(kept.path)
            _remove(kept.changes)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("%s cannot be removed: %s", path, error)
