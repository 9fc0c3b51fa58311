"""Store layer, bottom: the LMDB environment of one tablespace.

Named databases: ``t<ID>`` holds a table's rows, ``i<ID>`` an index's entries, ``outcomes`` what
became of named commits, ``loads`` the loads that were done, ``meta`` the format version, uuid,
catalog, applied LSN, checksums and states of sequences.
Everything above reads through a ``DiskView``, one read transaction with the handles it knows;
``current`` is the newest and is replaced as one attribute, so that a reader in another thread keeps
a view that fits together.
Only the checkpointer writes (``flush``). Keys of any length: see ``physical``.
Who opens LMDB to write it reads single rows mostly. So its map is read without readahead, which would take
the place of pages that are needed again; scans that meet missing pages have theirs read ahead (``pages``).
Who opens it to read reads much of it.
"""

from __future__ import annotations

import struct
import sys
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakSet

import lmdb
import msgspec

from herdpy.log.errors import NEWER_HINT
from herdpy.log.files import sync_directory
from herdpy.log.lsn import LSN, START
from herdpy_server.store import loads, outcomes, probe
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.limits import ADDRESS_SPACE
from herdpy_server.store.pages import Pages
from herdpy_sql.catalog import Catalog, relabelled
from herdpy_sql.definitions import decode_table, encode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import decode_object, encode_object


class StoreDamagedError(Exception):
    """The files of a store cannot be trusted; ``str`` says what was found, for a person to read.

    The state can be made again from the log when the log is whole, or from a replica or a backup.
    """


class ApplyError(Exception):
    """A record of the log does not fit the state it is applied to, so that log and store differ."""


def encode_catalog(catalog: Catalog) -> bytes:
    """Definitions are kept as the log has them."""
    tables = [msgspec.Raw(encode_table(table)) for table in catalog.tables.values()]
    roles = None if catalog.roles is None else {n: msgspec.Raw(one) for n, one in catalog.roles.items()}
    objects = [msgspec.Raw(encode_object(one)) for one in catalog.objects.values()]
    return msgspec.json.encode(_CatalogImage(catalog.version, catalog.next_id, tables, roles, objects))


class _CatalogImage(msgspec.Struct, omit_defaults=True):
    version: int
    next_id: int
    tables: list[msgspec.Raw]
    roles: dict[str, msgspec.Raw] | None = None
    objects: list[msgspec.Raw] = []


def decode_catalog(data: bytes) -> Catalog:
    """What ``encode_catalog`` was given. ValueError when it was not."""
    image = msgspec.json.decode(data, type=_CatalogImage)
    tables = [decode_table(bytes(one)) for one in image.tables]
    roles = None if image.roles is None else {name: bytes(one) for name, one in image.roles.items()}
    objects = {one.id: one for one in (decode_object(bytes(raw)) for raw in image.objects)}
    return Catalog(
        image.version,
        image.next_id,
        {table.id: relabelled(table, objects) for table in tables},
        roles,
        objects,
    )


_KNOWN_PAGES = sys.byteorder == "little"
"""Whether LMDB's pages are here as ``pages`` knows them."""
FORMAT = 1
MAX_DATABASES = 16_384
"""Tables and indexes; LMDB has room for a quarter more, for those that were dropped and are still read."""
_SLOTS = MAX_DATABASES * 5 // 4
MAX_READERS = 1024
"""States of LMDB that are read at a time, by this process and all others that have the file open."""
META = b"meta"
SEQUENCES = b"sequences"
COMMITTED = b"committed_us"
_LSN = struct.Struct(">qq")

_NOT_DAMAGE = (lmdb.MemoryError, lmdb.DiskError, lmdb.ReadonlyError, lmdb.ReadersFullError, lmdb.LockError)
"""What the machine refuses, and no reason to set a store aside: memory, space, permission."""

_F = TypeVar("_F", outcomes.Figures, loads.LoadFigures)

Checksums = dict[int, tuple[int, int]]
"""(rows, checksum) by table id."""


class DiskState(NamedTuple):
    """What ``meta`` says in one state."""

    lsn: LSN
    catalog: Catalog
    checksums: Checksums


class _ViewUse:
    """That a view is in use, and of which databases. It goes with the view, a native object, which cannot be
    referred to weakly."""

    __slots__ = ("__weakref__", "handles")

    def __init__(self, handles: Mapping[int, Any]) -> None:
        self.handles = handles


class Disk:
    """The environment: opening it, its meta database, and the view that readers use.

    Attributes:
        used_bytes, map_size_bytes: how much of its map the file takes, and how large it may grow before it is
            opened again; as of the newest view, and known after the closing too.
        pages: the file, whose map is read without readahead; None where it is read with it.
    """

    def __init__(
        self,
        path: Path,
        *,
        map_size_bytes: int | None,
        read_only: bool,
        lock: bool = True,
        max_readers: int = MAX_READERS,
    ) -> None:
        """Raise StoreDamagedError when LMDB refuses the files or ``meta`` does not fit together.

        A format that a newer HerdPy has written is SqlError 0A000: it is no damage, and nothing is rebuilt.

        ``map_size_bytes`` None is by need, of the address space of the process.

        SqlError 53200, 53400 when the machine, or the number of readers, does not allow it now.
        """
        self.path = path
        checked = self._trust(path, read_only)
        self.read_only = read_only
        self.handles: dict[int, Any] = {}
        self.condemned: dict[int, Any] = {}  # emptied, to be removed once no view knows them
        self.pages: Pages | None = None
        self._used: WeakSet[_ViewUse] = WeakSet()
        self._counting = threading.Lock()
        if not read_only:
            path.mkdir(parents=True, exist_ok=True)
        elif not (path / "data.mdb").exists():
            raise StoreDamagedError(f"{path / 'data.mdb'} does not exist")
        self._taken_bytes = 0
        if map_size_bytes is None:
            data = path / "data.mdb"
            map_size_bytes = ADDRESS_SPACE.take(data.stat().st_size if data.exists() else 0)
            self._taken_bytes = map_size_bytes
        try:
            self._open(map_size_bytes, max_readers, lock=lock, checked=checked)
        except BaseException:
            ADDRESS_SPACE.give_back(self._taken_bytes)
            raise

    def _open(self, map_size_bytes: int, max_readers: int, *, lock: bool, checked: bool) -> None:
        path, read_only = self.path, self.read_only
        try:
            self.env = lmdb.open(
                str(path),
                map_size=map_size_bytes,
                max_dbs=_SLOTS,
                max_readers=max_readers,
                max_spare_txns=16,
                readonly=read_only,
                lock=lock,
                meminit=False,
                readahead=self.read_only or not _KNOWN_PAGES,
            )
        except _NOT_DAMAGE as error:
            raise refused(error) from error
        except lmdb.Error as error:
            raise StoreDamagedError(f"{path / 'data.mdb'}: {error}") from error
        self.max_readers = max_readers
        self._page_bytes = int(self.env.stat()["psize"])
        try:
            if not read_only and _KNOWN_PAGES:
                self.pages = Pages(path / "data.mdb", self._page_bytes)
            if lock:
                self.env.reader_check()
            self._open_meta()
            self.current = self.renewed()
            if not read_only:
                probe.mark_opened(path, checked=checked)
        except _NOT_DAMAGE as error:
            self.env.close()
            raise refused(error) from error
        except (lmdb.Error, ValueError, KeyError, TypeError, struct.error) as error:
            self.env.close()
            raise StoreDamagedError(f"{path / 'data.mdb'}: {error}") from error
        except BaseException:
            self.env.close()
            raise

    @staticmethod
    def _trust(path: Path, read_only: bool) -> bool:
        """Raise StoreDamagedError rather than let LMDB open a file that would end the process.

        Returns:
            Whether it was closed, or all of it was read: not only that the machine has gone on.
        """
        data, closed = path / "data.mdb", path / probe.CLOSED
        fault = probe.header_fault(data)
        checked = read_only or closed.exists() or not data.exists()
        if fault is not None or not (checked or probe.machine_went_on(path)):
            checked = True
            found = probe.walk_fault(path)
            if found is not None:
                raise StoreDamagedError(f"{data}: {found if fault is None else f'{fault}; {found}'}")
        if not read_only and closed.exists():
            closed.unlink()
            sync_directory(path)
        return checked

    def _open_meta(self) -> None:
        if not self.read_only:
            with self.env.begin(write=True) as txn:
                meta = self.env.open_db(META, txn=txn)
                if txn.get(b"format", None, meta) is None:
                    if txn.stat(meta)["entries"]:
                        raise StoreDamagedError(f"{self.path}: meta has no format version")
                    txn.put(b"format", str(FORMAT).encode(), db=meta)
                    txn.put(b"uuid", str(uuid.uuid4()).encode(), db=meta)
                    self._write_meta(txn, meta, START, Catalog(), {}, outcomes.Figures(), loads.LoadFigures())
                for name in (outcomes.NAME, loads.NAME):
                    self.env.open_db(name, txn=txn)
        # Without a transaction given, so that py-lmdb commits and the handles outlive it.
        self.meta = self.env.open_db(META, create=False)
        with self.env.begin() as txn:
            version = txn.get(b"format", b"", self.meta)
            if version.isdigit() and int(version) > FORMAT:
                raise SqlError(
                    "0A000",
                    f"the store {self.path} has format {version.decode()}, and this HerdPy reads {FORMAT}",
                    hint=NEWER_HINT,
                )
            if version != str(FORMAT).encode():
                raise StoreDamagedError(f"{self.path}: format version {version!r}, {FORMAT} is known here")
            self.uuid = txn.get(b"uuid", b"", self.meta).decode()
            self.durable = LSN(*_LSN.unpack(txn.get(b"applied", b"", self.meta)))
            self.written = decode_catalog(txn.get(b"catalog", b"", self.meta))
            self.checksums = _decode_checksums(txn.get(b"checksums", b"", self.meta))
            if set(self.checksums) != set(self.written.tables):
                raise StoreDamagedError(f"{self.path}: tables and their checksums do not match")
            self.outcomes = _decode_figures(txn.get(outcomes.NAME, None, self.meta), outcomes.Figures)
            self.loads = _decode_figures(txn.get(loads.NAME, None, self.meta), loads.LoadFigures)
            self.committed_us = int(txn.get(COMMITTED, b"0", self.meta))
            states = msgspec.json.decode(txn.get(SEQUENCES, b"{}", self.meta), type=dict[int, str])
            self.sequences = {number: bytes.fromhex(state) for number, state in states.items()}
            present = {bytes(key) for key, _ in txn.cursor()}
        self.outcomes_handle = self._open_kept(outcomes.NAME, present, self.outcomes, "outcomes of commits")
        self.loads_handle = self._open_kept(loads.NAME, present, self.loads, "loads that were done")
        for table in self.written.tables.values():
            for name, db in ((b"t", table.id), *((b"i", index.id) for index in table.indexes)):
                if name + b"%d" % db in present:
                    self.handles[db] = self.env.open_db(name + b"%d" % db, create=False)
            if self.checksums[table.id][0] and table.id not in self.handles:
                raise StoreDamagedError(f"{self.path}: the rows of table {table.name} are gone")
        known = {
            META,
            outcomes.NAME,
            loads.NAME,
            *(b"t%d" % db for db in self.handles),
            *(b"i%d" % db for db in self.handles),
        }
        left_over = present - known
        if left_over and not self.read_only:  # of tables that were dropped
            handles = [self.env.open_db(name, create=False) for name in sorted(left_over)]
            with self.env.begin(write=True) as txn:
                for handle in handles:
                    txn.drop(handle, delete=True)

    def _open_kept(
        self, name: bytes, present: set[bytes], figures: outcomes.Figures | loads.LoadFigures, what: str
    ) -> Any:
        """The handle of a database; None in a store that was written before there was one."""
        if name in present:
            return self.env.open_db(name, create=False)
        if figures.end > figures.first:
            raise StoreDamagedError(f"{self.path}: the {what} are gone")
        return None

    def read_state(self, txn: Any) -> DiskState:
        """What ``meta`` says in the state of a transaction. StoreDamagedError when it cannot be read."""
        try:
            return DiskState(
                LSN(*_LSN.unpack(txn.get(b"applied", b"", self.meta))),
                decode_catalog(txn.get(b"catalog", b"", self.meta)),
                _decode_checksums(txn.get(b"checksums", b"", self.meta)),
            )
        except (lmdb.Error, ValueError, KeyError, TypeError, struct.error) as error:
            raise StoreDamagedError(f"{self.path / 'data.mdb'}: {error}") from error

    def read_outcomes(self) -> list[outcomes.CommitOutcome]:
        """What LMDB has of outcomes, oldest first. StoreDamagedError when it is not what ``meta`` says."""
        if self.outcomes_handle is None:
            return []
        with self.env.begin() as txn:
            fault = next(outcomes.faults(txn, self.outcomes_handle, self.outcomes), None)
            if fault is not None:
                raise StoreDamagedError(f"{self.path}: outcomes of commits: {fault}")
            return [outcome for _serial, outcome in outcomes.read(txn, self.outcomes_handle)]

    def read_loads(self) -> list[loads.Loaded]:
        """What LMDB has of loads, oldest first. StoreDamagedError when it is not what ``meta`` says."""
        if self.loads_handle is None:
            return []
        with self.env.begin() as txn:
            fault = next(loads.faults(txn, self.loads_handle, self.loads), None)
            if fault is not None:
                raise StoreDamagedError(f"{self.path}: loads that were done: {fault}")
            return [one for _serial, one in loads.read(txn, self.loads_handle)]

    def write_meta(
        self,
        txn: Any,
        applied: LSN,
        catalog: Catalog,
        checksums: Checksums,
        figures: outcomes.Figures,
        done: loads.LoadFigures,
        sequences: Mapping[int, bytes],
        committed_us: int,
    ) -> None:
        """Put all that is the state's, and no table's, into a write transaction."""
        txn.put(COMMITTED, str(committed_us).encode(), db=self.meta)
        if sequences is not self.sequences:
            states = {str(number): state.hex() for number, state in sequences.items()}
            txn.put(SEQUENCES, msgspec.json.encode(states), db=self.meta)
        # A thousand tables take 20 ms to encode, and change seldom.
        changed = None if catalog is self.written else catalog
        self._write_meta(txn, self.meta, applied, changed, checksums, figures, done)

    @staticmethod
    def _write_meta(
        txn: Any,
        meta: Any,
        applied: LSN,
        catalog: Catalog | None,
        checksums: Checksums,
        figures: outcomes.Figures,
        done: loads.LoadFigures,
    ) -> None:
        sums = {str(table): (rows, f"{checksum:016x}") for table, (rows, checksum) in checksums.items()}
        txn.put(b"applied", _LSN.pack(*applied), db=meta)
        if catalog is not None:
            txn.put(b"catalog", encode_catalog(catalog), db=meta)
        txn.put(b"checksums", msgspec.json.encode(sums), db=meta)
        txn.put(outcomes.NAME, msgspec.json.encode(figures), db=meta)
        txn.put(loads.NAME, msgspec.json.encode(done), db=meta)

    def reserve(self) -> DiskView:
        """A place in LMDB's table of readers for the state that is about to be written. ReadersFullError."""
        return DiskView(self.env.begin(), {}, self.pages)

    def renewed(self, reserved: DiskView | None = None) -> DiskView:
        """A view of the newest state, for any number of threads.

        Args:
            reserved: whose place the view takes: then there is room for it.

        Raises:
            lmdb.ReadersFullError: LMDB's table of readers is full.
        """
        with self._counting:
            if reserved is not None:
                reserved.end()
            handles = dict(self.handles)
            use = _ViewUse(handles)
            view = DiskView(self.env.begin(), handles, self.pages, use)
            self._used.add(use)
            info = self.env.info()
            self.map_size_bytes = int(info["map_size"])
            self.used_bytes = (int(info["last_pgno"]) + 1) * self._page_bytes
        # Threads share the view, and LMDB notes in it where a database begins when it is first read.
        for handle in (self.meta, *view.handles.values()):
            view.txn.stat(handle)
        return view

    def contents(self, view: DiskView) -> tuple[LSN, Checksums]:
        """The position of a view, and what each table holds in it."""
        position = LSN(*_LSN.unpack(view.txn.get(b"applied", b"", self.meta)))
        return position, _decode_checksums(view.txn.get(b"checksums", b"", self.meta))

    @property
    def states(self) -> int:
        """How many states of LMDB somebody in this process reads, each by one reader."""
        with self._counting:
            return len(self._used)

    def clear_stale_readers(self) -> int:
        """Free the places of processes that ended while they read, which keep pages from being used again.

        Returns how many there were.
        """
        return int(self.env.reader_check())

    def is_read(self, db: int) -> bool:
        """Whether some view may still read a database."""
        with self._counting:
            return any(db in use.handles for use in self._used)

    def close(self) -> None:
        """Close the environment; every view must be out of use."""
        with suppress(AttributeError):
            del self.current
        self.env.close()
        if self.pages is not None:
            self.pages.close()
        ADDRESS_SPACE.give_back(self._taken_bytes)
        self._taken_bytes = 0
        if not self.read_only:
            (self.path / probe.OPENED).unlink(missing_ok=True)
            (self.path / probe.CLOSED).touch()
            sync_directory(self.path)


def refused(error: Exception) -> SqlError:
    """What to tell when the machine, or a limit of LMDB, refused to open or read a store."""
    if isinstance(error, lmdb.ReadersFullError):
        return SqlError(
            "53400",
            "too many states of the store are read at the same time",
            detail=str(error),
            hint="End transactions and queries that have been open for long.",
        )
    return SqlError("53200", f"the store cannot be opened: {error}")


def _decode_checksums(data: bytes) -> Checksums:
    return {
        int(table): (int(rows), int(checksum, 16))
        for table, (rows, checksum) in msgspec.json.decode(data).items()
    }


def _decode_figures(data: bytes | None, kind: type[_F]) -> _F:
    return kind() if data is None else msgspec.json.decode(data, type=kind)
