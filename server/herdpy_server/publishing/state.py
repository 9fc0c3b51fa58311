"""What is published: every table of one state of a store, read in key order.

The lowest module of the package, over the store. A state comes from an open store of this process
(``applied_state``), or from LMDB's files while another process writes them (``frozen_state``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from herdpy.log.lsn import LSN
from herdpy_server.store import Store, StoreDamagedError
from herdpy_server.store.disk import Disk
from herdpy_server.store.layers import Item
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Table

_LSN = struct.Struct(">qq")
_MAP_SIZE_BYTES = 1 << 40
_TRIES = 10


@dataclass(frozen=True, slots=True)
class State:
    """One state. For one thread; ``close`` lets go of it.

    Attributes:
        lsn: everything up to it is in the tables, and nothing after it.
        checksums: by table id how many rows there must be, and their checksum; None where that is not kept.
        scan: the rows of a table, as pairs of encoded key and row image.
    """

    lsn: LSN
    catalog: Catalog
    checksums: Mapping[int, tuple[int, int]] | None
    scan: Callable[[Table], Iterator[Item]]
    close: Callable[[], None]

    @property
    def rows(self) -> int:
        """About how many rows there are: 0 where that is not known."""
        return 0 if self.checksums is None else sum(rows for rows, _sum in self.checksums.values())


def applied_state(store: Store) -> State:
    """What is applied now in an open store, whatever happens to it afterwards."""
    snapshot, lsn = store.applied_snapshot()
    return State(lsn, snapshot.catalog, None, snapshot.scan, snapshot.close)


def frozen_state(path: Path) -> State:
    """The newest state in the LMDB environment at ``path``, which another process may be writing.

    Raises:
        StoreDamagedError: it cannot be opened.
    """
    disk = _opened(path)
    view = disk.current

    def scan(table: Table) -> Iterator[Item]:
        return view.scan(table.id, None, None, reverse=False, may_be_long=TableOps(table).may_be_long)

    def close() -> None:
        view.txn.abort()
        disk.close()

    return State(disk.durable, disk.written, dict(disk.checksums), scan, close)


def _opened(path: Path) -> Disk:
    """The environment, of which one state is known whole."""
    for left in reversed(range(_TRIES)):
        try:
            disk = Disk(path, map_size_bytes=_MAP_SIZE_BYTES, read_only=True)
        except StoreDamagedError:  # perhaps a table was dropped in the middle of it
            if not left:
                raise
            continue
        # What was read of meta while opening, and the view, are two transactions: one state only if
        # nobody wrote between them.
        if LSN(*_LSN.unpack(disk.current.txn.get(b"applied", b"", disk.meta))) == disk.durable:
            return disk
        disk.close()
    raise StoreDamagedError(f"{path} changes faster than it can be opened")
