"""A log of loads that is written at random, with what the tables hold after each of its transactions."""

from __future__ import annotations

import io
import random

import pyarrow as pa
from google_crc32c import value as crc32c

from herdpy.log.records import (
    CreateTable,
    Delete,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadDone,
    LoadOp,
    StagedPart,
    Truncate,
)
from herdpy_sql.catalog import HIDDEN_KEY, Column, KeyPart, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.types import Base, SqlType

BIGINT, TEXT, CHAR, NUMERIC = (
    SqlType(Base.BIGINT),
    SqlType(Base.TEXT),
    SqlType(Base.CHAR, 3),
    SqlType(Base.NUMERIC, None, 12, 2),
)
KEYED = Table(
    1,
    "keyed",
    (Column("name", TEXT), Column("a", BIGINT, not_null=True), Column("b", CHAR, not_null=True)),
    (KeyPart(1, descending=True), KeyPart(2)),
    "keyed_pkey",
)
HIDDEN = Table(
    2,
    "hidden",
    (Column("name", TEXT), Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True)),
    (KeyPart(1),),
    "hidden_pkey",
)


def stream_of(batches):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as out:
        for batch in batches:
            out.write_batch(batch)
    return sink.getvalue()


class Loads:
    """Makes the records of one transaction after another.

    Attributes:
        staged: the streams of parts, by ledger id.
        held: the rows of each table by key, now.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.staged = {}
        self.held = {"keyed": {}, "hidden": {}}
        self._row_id = 1

    def first(self):
        return [CreateTable(encode_table(KEYED)), CreateTable(encode_table(HIDDEN))]

    def rows(self):
        """What the tables hold, as reading gives it."""
        keyed = [{"name": name, "a": a, "b": b} for (a, b), name in self.held["keyed"].items()]
        hidden = [{"name": name} for name in self.held["hidden"].values()]
        return {"keyed": sorted(keyed, key=repr), "hidden": sorted(hidden, key=repr)}

    def next(self):
        """The records of a transaction, already counted in."""
        kinds = [self._load, self._hidden_load, self._batch, self._plain, self._truncate]
        return self.random.choices(kinds, [6, 3, 2, 3, 0.3])[0]()

    def _key(self):
        return self.random.randrange(30), self.random.choice("xyz")

    def _load(self):
        op = self.random.choice(list(LoadOp))
        held, present, rows = self.held["keyed"], [], []
        for number in range(self.random.choice([1, 3, 40])):
            key = self._key()
            if op == LoadOp.INSERT and key in held:
                continue
            rows.append((f"{op.name}{number}", *key))
            present.append(key in held)
            if op in (LoadOp.INSERT, LoadOp.UPSERT) or (op == LoadOp.IGNORE and key not in held):
                held[key] = rows[-1][0]
            elif op == LoadOp.DELETE:
                held.pop(key, None)
        if not rows:
            return []
        names, keys, others = zip(*rows, strict=True)
        padded = [one + " " * self.random.randrange(5) for one in others]  # of which nothing is kept
        columns = {"name": names, "a": pa.array(keys, pa.int64()), "b": padded}
        if op == LoadOp.DELETE:
            del columns["name"]
        parts = self._parts(pa.table(columns))
        mask = sum(1 << at for at, one in enumerate(present) if one)
        packed = mask.to_bytes((len(rows) + 7) // 8, "little") if op != LoadOp.INSERT else b""
        return [
            LoadBatch(1, op, -1, parts, packed.rstrip(b"\0")),
            LoadDone("id", 1, 0, 0, 0, 0),
        ]

    def _hidden_load(self):
        names = [f"load{number}" for number in range(self.random.choice([1, 25]))]
        first, self._row_id = self._row_id, self._row_id + len(names)
        self.held["hidden"].update(enumerate(names, first))
        return [LoadBatch(2, LoadOp.INSERT, first, self._parts(pa.table({"name": names})))]

    def _batch(self):
        keys = sorted({self._key() for _ in range(20)} - self.held["keyed"].keys())
        if not keys:
            return []
        self.held["keyed"].update(dict.fromkeys(keys, "batch"))
        columns = {"name": ["batch"] * len(keys), "a": [a for a, _ in keys], "b": [b for _, b in keys]}
        batch = pa.table(columns).to_batches()[0]
        return [InsertBatch(1, stream_of([batch]), len(keys))]

    def _plain(self):
        records, held = [], self.held["keyed"]
        for key in {self._key() for _ in range(4)}:
            encoded = KEYED.key_codec.encode(key)
            if key in held and self.random.random() < 0.5:
                del held[key]
                records.append(Delete(1, encoded))
            elif key not in held:
                held[key] = "plain"
                records.append(Insert(1, encoded, KEYED.row_codec.encode(["plain", *key])))
        return records

    def _truncate(self):
        name = self.random.choice(["keyed", "hidden"])
        self.held[name].clear()
        return [Truncate({"keyed": 1, "hidden": 2}[name])]

    def _parts(self, table):
        """The rows as the streams of a few parts, each of a few batches."""
        parts, at = [], 0
        while at < len(table):
            rows = table.slice(at, self.random.choice([1, 9, 30]))
            data = stream_of(rows.to_batches(max_chunksize=7))
            ledger_id = len(self.staged) + 100
            self.staged[ledger_id] = data
            parts.append(StagedPart(ledger_id, 0, len(data), crc32c(data), len(rows)))
            at += len(rows)
        return tuple(parts)
