"""Loads applied from the rows that they staged: what plain records of the same changes give."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import herdpy
from herdpy.codec.arrow import arrow_type
from herdpy.log import (
    LSN,
    Before,
    Delete,
    Insert,
    LoadBatch,
    LoadDone,
    LoadOp,
    LoggedTransaction,
    Record,
    StagedPart,
    Truncate,
    Update,
)
from herdpy_server.store import Store, apply
from herdpy_server.store.check import Sum, sums
from herdpy_server.store.disk import ApplyError
from herdpy_sql.catalog import Column, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.staged import kept_keys, kept_rows, staged_positions
from herdpy_sql.types import Base, SqlType

TABLES = {
    "plain": "CREATE TABLE plain (id INT PRIMARY KEY, v TEXT, c CHAR(5), d VARCHAR(3))",
    "indexed": "CREATE TABLE indexed (a TEXT, v INT, b BIGINT, PRIMARY KEY (b, a)); "
    "CREATE INDEX indexed_v ON indexed (v); CREATE INDEX indexed_va ON indexed (v, a)",
    "hidden": "CREATE TABLE hidden (v INT, w TEXT); CREATE INDEX hidden_v ON hidden (v)",
}
Row = tuple[Any, ...]


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_LOADED_AT_ONCE", 5)
    monkeypatch.setattr(apply, "_AT_ONCE", 7)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the tables."""
    path = tmp_path_factory.mktemp("origin")
    with herdpy.connect(f"herdpy://{path}/d", autocommit=True) as connection:
        for text in TABLES.values():
            for statement in text.split("; "):
                connection.execute(statement).close()
    return path / "d" / "store"


@pytest.fixture
def stores(origin: Path, tmp_path: Path) -> Iterator[list[Store]]:
    """Three copies of it."""
    first = Store.open(origin)
    for name in "abc":
        first.copy(tmp_path / name)
    first.close()
    opened = [Store.open(tmp_path / name) for name in "abc"]
    yield opened
    for store in opened:
        store.close()


def of(store: Store) -> list[Sum]:
    """The sums of all that is applied."""
    snapshot, _lsn = store.applied_snapshot()
    try:
        return sorted(sums(snapshot, threading.Event()))
    finally:
        snapshot.close()


def a_row(rng: random.Random, table: Table) -> Row:
    text = lambda: rng.choice([None, "", "x", "yy ", "é"])  # noqa: E731 - it is short
    match table.name:
        case "plain":
            return (
                rng.randrange(30),
                text(),
                rng.choice([None, "a", "ab   ", " b"]),
                rng.choice(["abc", "d  "]),
            )
        case "indexed":
            return rng.choice(["a", "b", "c"]), rng.choice([None, 1, 2, 3]), rng.randrange(12)
        case _:
            return rng.choice([None, 1, 2]), text()


def staged(
    table: Table, op: LoadOp, rows: list[Row], rng: random.Random
) -> tuple[list[bytes], list[StagedPart]]:
    """The rows as streams of a few batches, and the parts that name them."""
    positions = staged_positions(table, keys_only=op is LoadOp.DELETE)
    fields = [
        pa.field(table.columns[at].name, arrow_type(table.fields[at], table.columns[at].type.precision))
        for at in positions
    ]
    schema = pa.schema(fields)
    streams, parts, at = [], [], 0
    while at < len(rows) or not streams:
        some = rows[at : at + rng.randint(0, 25)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for start in range(0, len(some), 9):
                columns = list(zip(*some[start : start + 9], strict=True))
                writer.write_batch(
                    pa.record_batch(
                        [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema
                    )
                )
        streams.append(sink.getvalue().to_pybytes())
        parts.append(StagedPart(len(parts), 0, len(streams[-1]), 0, len(some)))
        at += len(some)
    return streams, parts


def as_kept(table: Table, row: Row) -> Row:
    """A row's values as the table keeps them."""
    kept = []
    for column, value in zip((c for c in table.columns if c.visible), row, strict=True):
        text = value.rstrip(" ") if column.type.base is Base.CHAR and value is not None else value
        kept.append(text if text is None or column.type.length is None else text[: column.type.length])
    return tuple(kept)


class Model:
    """A table as a dict, and the plain records of what happens to it."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[bytes, bytes] = {}
        self.next_id = 1

    def key_of(self, values: Row) -> bytes:
        return self.table.key_codec.encode([values[at] for at in self.table.key_positions])

    def load(self, op: LoadOp, rows: list[Row]) -> tuple[list[Record], list[bool], list[int]]:
        """Plain records of a load, which of its keys were present, and counts."""
        table, records, present = self.table, [], []
        counts = [0, 0, 0, 0]
        for row in rows:
            if op is LoadOp.DELETE:
                key, image = table.key_codec.encode(row), b""
            else:
                values = as_kept(table, row)
                if table.has_hidden_key:
                    values = (*values, self.next_id)
                    assert table.columns[-1].hidden
                    self.next_id += 1
                key, image = self.key_of(values), table.row_codec.encode(values)
            there = key in self.rows
            present.append(there)
            match op, there:
                case LoadOp.DELETE, True:
                    records += [Before(table.id, key, self.rows.pop(key)), Delete(table.id, key)]
                    counts[2] += 1
                case LoadOp.UPSERT, True:
                    records += [Before(table.id, key, self.rows[key]), Update(table.id, None, key, image)]
                    self.rows[key] = image
                    counts[1] += 1
                case (LoadOp.DELETE, _) | (LoadOp.IGNORE, True):
                    counts[3] += 1
                case _:
                    records.append(Insert(table.id, key, image))
                    self.rows[key] = image
                    counts[0] += 1
        return records, present, counts


def _rows(rng: random.Random, model: Model, op: LoadOp) -> list[Row]:
    table, count = model.table, rng.choice([0, 1, 8, 60])
    made = [a_row(rng, table) for _ in range(count)]
    if op is LoadOp.DELETE:
        visible = [at for at, column in enumerate(table.columns) if column.visible]
        return [tuple(row[visible.index(at)] for at in table.key_positions) for row in made]
    if op is LoadOp.INSERT and not table.has_hidden_key:
        fresh = {model.key_of(as_kept(table, row)): row for row in made}
        return [row for key, row in fresh.items() if key not in model.rows]
    return made


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("seed", range(4))
def test_a_load_is_what_plain_records_of_it_are(stores: list[Store], name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    plain, at_once, stepwise = stores
    model = Model(plain.catalog.by_name[name])
    ops = [LoadOp.INSERT, LoadOp.IGNORE] if model.table.has_hidden_key else list(LoadOp)
    for number in range(25):
        op = rng.choice(ops)
        begin: list[Record] = []
        if op is LoadOp.INSERT and rng.random() < 0.3:
            model.rows, begin = {}, [Truncate(model.table.id)]
        rows = _rows(rng, model, op)
        first = model.next_id if model.table.has_hidden_key else -1
        records, present, counts = model.load(op, rows)
        streams, parts = staged(model.table, op, rows, rng)
        bits = np.packbits(np.array(present, bool), bitorder="little").tobytes()
        bits = bits.rstrip(b"\0") if rng.random() < 0.5 else bits
        done = LoadDone(f"l{number}", model.table.id, *counts)
        lsn = LSN(100, number)
        plain.apply_logged(lsn, [(lsn, LoggedTransaction(number, [*begin, *records]))])
        for store in (at_once, stepwise):
            load = LoadBatch(model.table.id, op, first, tuple(parts), bits, staged=list(streams))
            transaction = LoggedTransaction(number, [*begin, load, done])
            assert load.present_mask(0, len(rows)).tolist() == present
            if store is at_once:
                store.apply_logged(lsn, [(lsn, transaction)])
            else:
                before = of(store)
                for _ in store.apply_in_steps(lsn, [(lsn, transaction)]):
                    assert of(store) == before
        assert of(plain) == of(at_once) == of(stepwise)
        if rng.random() < 0.2:
            for store in stores:
                store.flush()
    for store in stores:
        store.flush()
        assert list(store.check()) == []
        assert store.applied == store.durable == LSN(100, 24)
    outcome = stepwise.load("l24")
    assert outcome == at_once.load("l24")
    assert outcome is not None
    assert outcome[4:] == tuple(counts)
    assert stepwise.table_checksums() == plain.table_checksums()


def _wrong(stores: list[Store], load: LoadBatch) -> None:
    for store in stores[:2]:
        lsn = LSN(100, 0)
        before = store.applied
        with pytest.raises(ApplyError, match="LoadBatch does not fit"):
            for _ in store.apply_in_steps(lsn, [(lsn, LoggedTransaction(1, [load]))]):
                pass
        assert store.applied == before


def test_a_load_whose_rows_were_not_read_is_refused(stores: list[Store]) -> None:
    table = stores[0].catalog.by_name["plain"]
    _wrong(stores, LoadBatch(table.id, LoadOp.INSERT, -1, (StagedPart(1, 0, 9, 0, 1),)))


@pytest.mark.parametrize("fault", ["rows", "columns", "bytes", "table", "text"])
def test_a_load_that_does_not_fit_is_refused(stores: list[Store], fault: str) -> None:
    table = stores[0].catalog.by_name["plain"]
    rows: list[Row] = [(1, "a", "b", "toolong" if fault == "text" else "c")]
    if fault == "columns":
        rows = [(1,)]
    op = LoadOp.DELETE if fault == "columns" else LoadOp.INSERT
    streams, parts = staged(table, op, rows, random.Random(3))
    if fault == "rows":
        parts[-1] = replace(parts[-1], rows=parts[-1].rows + 1)
    if fault == "bytes":
        streams = [stream[: len(stream) // 2] for stream in streams]
    table_id = 999 if fault == "table" else table.id
    _wrong(stores, LoadBatch(table_id, LoadOp.INSERT, -1, tuple(parts), staged=list(streams)))


def test_dropped_columns_are_not_staged_and_kept_as_null(stores: list[Store]) -> None:
    table = stores[0].catalog.by_name["hidden"]
    gone = Column("gone", SqlType(Base.NUMERIC, None, 10, 2), dropped=True)
    altered = replace(table, columns=(*table.columns[:1], gone, *table.columns[1:]), key=table.key)
    altered = replace(altered, key=(replace(table.key[0], position=table.key[0].position + 1),))
    batch = pa.record_batch({"v": pa.array([1, None], pa.int32()), "w": ["a", None]})
    kept = kept_rows(altered, batch, 7)
    assert kept.schema.names == [column.name for column in altered.columns]
    assert kept.to_pylist() == [
        {"v": 1, "gone": None, "w": "a", "__rowid": 7},
        {"v": None, "gone": None, "w": None, "__rowid": 8},
    ]
    assert encode_table(altered)
    with pytest.raises(ValueError, match="3 columns are staged for hidden, not 1"):
        kept_keys(table, pa.record_batch([pa.array([1])] * 3, ["a", "b", "c"]))
