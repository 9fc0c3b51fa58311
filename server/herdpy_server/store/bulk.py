"""Store layer, inside: many rows at once.

The checks of single inserts, made for a whole set of rows by set operations on keys: duplicates
within the set, then the deltas above LMDB (only keys that both know are looked at closer), then
LMDB by one merge of sorted keys. Nothing is changed before all checks have passed.
Above ``transaction_state``, below ``workspace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat

import pyarrow as pa

from herdpy.codec.kinds import Datum
from herdpy.log.records import Insert, InsertBatch
from herdpy_server.store import batches
from herdpy_server.store.batches import Expanded
from herdpy_server.store.layers import ENTRY_BYTES
from herdpy_server.store.tables import IndexOps, TableOps, duplicate
from herdpy_server.store.transaction_state import TransactionState
from herdpy_sql.catalog import KeyPart, Table
from herdpy_sql.errors import SqlError

Values = Callable[[int], Sequence[Datum]]


def insert_many(state: TransactionState, table: Table, taken: list[Sequence[Datum]]) -> int:
    """Add rows; errors as ``Workspace.insert``, and nothing is added when there is one."""
    ops = state.ops(table)
    try:
        keys = list(map(ops.key, taken))
        images = list(map(ops.encode, taken))
    except ValueError as error:
        raise SqlError("22000", str(error)) from error
    with _without_number():
        _add(state, ops, keys, images, taken.__getitem__, taken)
    state.records += map(Insert, repeat(table.id), keys, images)
    return len(taken)


def insert_batch(state: TransactionState, table: Table, batch: pa.RecordBatch) -> int:
    """Add an Arrow batch, logged as it is; errors as :func:`insert_many`."""
    ops = state.ops(table)
    if not batch.num_rows:
        return 0
    try:
        expanded = batches.expand(table, batch)
    except ValueError as error:
        raise SqlError("22000", str(error)) from error
    decode, images = ops.decode, expanded.images
    with _without_number():
        _add(state, ops, expanded.keys, images, lambda row: decode(images[row]), None)
    state.records.append(InsertBatch(table.id, batches.to_stream(batch), batch.num_rows, expanded))
    return batch.num_rows


@contextmanager
def _without_number() -> Iterator[None]:
    """A statement's error does not say which of its rows it was."""
    try:
        yield
    except SqlError as error:
        error.fields.pop("nth", None)
        raise


def add_batch(state: TransactionState, table: Table, expanded: Expanded) -> None:
    """Add the rows of an Arrow batch, and leave it to the caller to log them; errors as :func:`insert_many`.

    The error of a key that exists has the row's number, from 0, in its field ``nth``.
    """
    ops = state.ops(table)
    images = expanded.images
    if images:
        _add(state, ops, expanded.keys, images, lambda row: ops.decode(images[row]), None)


def _add(
    state: TransactionState,
    ops: TableOps,
    keys: list[bytes],
    images: list[bytes],
    values: Values,
    rows: Sequence[Sequence[Datum]] | None,
) -> None:
    """Check and add rows and their index entries. ``values`` gives a row's, ``rows`` all if at hand."""
    table = ops.table
    parts = [(table.id, dict(zip(keys, images, strict=True)))]
    _check(state, table.id, keys, parts[0][1], table, table.key, table.key_name, values)
    if ops.indexes:
        if rows is None:
            rows = list(map(ops.decode, images))
        for one in ops.indexes:
            some, some_keys, places = one.covered(rows, keys)
            try:
                entries = _checked_entries(state, ops, one, some_keys, some)
            except SqlError as error:
                if "nth" in error.fields:
                    error.fields["nth"] = str(places[int(error.fields["nth"])])
                raise
            parts.append((one.index.id, dict(zip(entries, some_keys, strict=True))))
    nbytes = sum(map(len, images))
    for db, fresh in parts:
        state.add_fresh(db, fresh, nbytes + len(fresh) * (len(keys[0]) + ENTRY_BYTES))
        nbytes = 0


def _checked_entries(
    state: TransactionState, ops: TableOps, one: IndexOps, keys: list[bytes], rows: Sequence[Sequence[Datum]]
) -> list[bytes]:
    try:
        entries, exclusive = one.entries(rows, keys)
    except ValueError as error:
        raise SqlError("22000", str(error)) from error
    if not one.unique:
        return entries
    index = one.index
    # Only entries without NULL keep others out.
    picked = range(len(rows)) if exclusive else [row for row in range(len(rows)) if one.excludes(rows[row])]
    chosen = entries if exclusive else [entries[row] for row in picked]
    if chosen:
        fresh = dict.fromkeys(chosen)
        try:
            _check(
                state,
                index.id,
                chosen,
                fresh,
                ops.table,
                index.parts,
                index.name,
                lambda at: rows[picked[at]],
            )
        except SqlError as error:
            error.fields["nth"] = str(picked[int(error.fields["nth"])])
            raise
    return entries


def _check(
    state: TransactionState,
    db: int,
    keys: list[bytes],
    fresh: dict[bytes, bytes] | dict[bytes, None],
    table: Table,
    parts: Sequence[KeyPart],
    name: str,
    values: Values,
) -> None:
    """Lock the keys and raise 23505 when one is there twice, or exists."""
    if len(fresh) != len(keys):
        seen: set[bytes] = set()
        for row, key in enumerate(keys):
            if key in seen:
                raise _refused(row, duplicate(table, parts, name, values(row)))
            seen.add(key)
    state.lock_many(db, fresh.keys())
    clash = state.first_existing(db, keys, fresh.keys())
    if clash is not None:
        row = keys.index(clash)
        raise _refused(row, duplicate(table, parts, name, values(row)))


def _refused(row: int, error: SqlError) -> SqlError:
    error.fields["nth"] = str(row)
    return error
