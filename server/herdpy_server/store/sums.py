"""Store layer, beside ``check``: what a state comes to in numbers, to be compared with another's.

Rows and a checksum of each table and of each index, and one of the definitions. Unlike the checksums that
are kept while tables are written, these are computed from what can be read: a row that changed on the disk
changes them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from herdpy_server.store.flush import row_hash
from herdpy_server.store.layers import Item
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_sql.catalog import Catalog
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


def sums(snapshot: StoreSnapshot, ended: threading.Event) -> list[Sum]:
    """Of everything in a state, by id. For a thread of its own, which has less of the processors than others.

    It takes at most half of the time, so that the loop's thread has the interpreter whenever it wants it.

    Raises:
        SumsGivenUpError: ``ended`` was set.
        lmdb.Error, ValueError: the state cannot be read.
    """
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
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
