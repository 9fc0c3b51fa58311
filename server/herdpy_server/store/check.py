"""Store layer, inside: whether what lies in LMDB fits together, and what a state comes to in numbers.

``sums``, to be compared with another replica's: rows and a checksum of each table and of each index, and
one of the definitions. Unlike the checksums that are kept while tables are written, these are computed from
what can be read: a row that changed on the disk changes them.

``herdpy check``: every row decodes and lies under its own key, every index entry is that of a row and every
row has its entries, unique entries are unique (by their keys), and the checksum of each table, computed
anew, is the one that was kept while it was written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import lmdb
from xxhash import xxh3_64_intdigest

from herdpy import machine
from herdpy_server.store import loads, outcomes
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.flush import row_hash
from herdpy_server.store.layers import Item
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.objects import encode_object

DEFINITIONS = (1 << 32) - 1
"""The relation of the definitions' sum, where others have the id of a table or an index."""

_STEP = 512
_NICENESS = 10
_MASK = (1 << 64) - 1


class Sum(NamedTuple):
    """Of one table or index: its id, how many rows or entries, and their checksum, whatever their order."""

    relation: int
    rows: int
    checksum: int


class SumsGivenUpError(Exception):
    """Nobody wants the sums any more."""


def lower_priority() -> None:
    """Have less of the processors than others, for as long as this thread lives."""
    machine.lower_thread(_NICENESS)


def sums(snapshot: StoreSnapshot, ended: threading.Event) -> list[Sum]:
    """Of everything in a state, by id. For a thread of its own (``lower_priority``).

    It takes at most half of the time, so that the loop's thread has the interpreter whenever it wants it.

    Raises:
        SumsGivenUpError: ``ended`` was set.
        lmdb.Error, ValueError: the state cannot be read.
    """
    found = [_definitions(snapshot.catalog)]
    for table in snapshot.catalog.tables.values():
        found.append(_sum(table.id, snapshot.scan(table), ended))
        found += [_sum(index.id, snapshot.index_scan(table, index), ended) for index in table.indexes]
    return sorted(found)


def names(catalog: Catalog) -> dict[int, str]:
    """What the ids in sums are of."""
    found = {DEFINITIONS: "(definitions)"}
    for table in catalog.tables.values():
        found[table.id] = table.name
        found |= {index.id: index.name for index in table.indexes}
    return found


def _definitions(catalog: Catalog) -> Sum:
    definitions = [encode_table(table) for _id, table in sorted(catalog.tables.items())]
    definitions += [name.encode() + one for name, one in sorted((catalog.roles or {}).items())]
    definitions += [encode_object(one) for _id, one in sorted(catalog.objects.items())]
    return Sum(DEFINITIONS, len(definitions), xxh3_64_intdigest(b"".join(definitions)))


def _sum(relation: int, items: Iterator[Item], ended: threading.Event) -> Sum:
    rows = checksum = 0
    while True:
        began_s = time.monotonic()
        taken = list(islice(items, _STEP))
        if not taken:
            return Sum(relation, rows, checksum & _MASK)
        rows += len(taken)
        checksum += _hashed(taken)
        if ended.wait(time.monotonic() - began_s):
            raise SumsGivenUpError


def _hashed(items: Iterable[Item]) -> int:
    return sum(row_hash(key, value) for key, value in items)


class Finding(NamedTuple):
    """Something wrong: in which table, index or file, and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check(view: DiskView, catalog: Catalog, checksums: dict[int, tuple[int, int]]) -> Iterator[Finding]:
    """Everything that is wrong in one state of LMDB, as it is found."""
    for table in catalog.tables.values():
        where = f"table {table.name}"
        try:
            yield from _check_table(view, table, checksums.get(table.id, (0, 0)), where)
            for index in table.indexes:
                where = f"index {index.name}"
                yield from _check_index(view, table, index.id, where)
        except (lmdb.Error, ValueError) as error:
            yield Finding(where, f"cannot be read: {error}")


def check_outcomes(view: DiskView, handle: Any, figures: outcomes.Figures) -> Iterator[Finding]:
    """Everything that is wrong with the outcomes of commits in one state of LMDB."""
    if handle is not None:
        yield from _findings("outcomes of commits", outcomes.faults(view.txn, handle, figures))


def check_loads(view: DiskView, handle: Any, figures: loads.LoadFigures) -> Iterator[Finding]:
    """Everything that is wrong with the loads that were done in one state of LMDB."""
    if handle is not None:
        yield from _findings("loads that were done", loads.faults(view.txn, handle, figures))


def _findings(where: str, faults: Iterator[str]) -> Iterator[Finding]:
    try:
        for fault in faults:
            yield Finding(where, fault)
    except lmdb.Error as error:
        yield Finding(where, f"cannot be read: {error}")


def _check_table(view: DiskView, table: Table, kept: tuple[int, int], where: str) -> Iterator[Finding]:
    ops = TableOps(table)
    rows = checksum = 0
    for key, image in view.scan(table.id, None, None, reverse=False, may_be_long=ops.may_be_long):
        rows += 1
        checksum += row_hash(key, image)
        try:
            values = ops.decode(image)
            if ops.key(values) != key:
                yield Finding(where, f"the row under key {key.hex()} has another key")
            for one in ops.indexes:
                entry, _ = one.entry(values, key)
                if entry and view.get(one.index.id, entry) != key:
                    yield Finding(f"index {one.index.name}", f"no entry for the row under key {key.hex()}")
        except ValueError as error:
            yield Finding(where, f"the row under key {key.hex()} does not decode: {error}")
    if (rows, checksum & _MASK) != kept:
        found = f"{rows} rows with checksum {checksum & _MASK:016x}"
        yield Finding(where, f"{found} where {kept[0]} with {kept[1]:016x} were written")


def _check_index(view: DiskView, table: Table, index_id: int, where: str) -> Iterator[Finding]:
    ops = TableOps(table)
    one = ops.index(index_id)
    for entry, key in view.scan(index_id, None, None, reverse=False, may_be_long=one.may_be_long):
        image = view.get(table.id, key)
        try:
            if image is None or one.entry(ops.decode(image), key)[0] != entry:
                yield Finding(where, f"entry {entry.hex()} is that of no row")
        except ValueError:
            continue  # the row does not decode, which was found above
