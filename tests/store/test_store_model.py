"""The store against a dict: random transactions, pending or durable, flushes, crashes, snapshots."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from herdpy.codec.arrow import datums_to_array
from herdpy.log.lsn import LSN
from herdpy.log.records import InsertBatch, decode_record
from herdpy_server.store import (
    NoLocks,
    Store,
    Workspace,
    columns,
    dead_ranges,
    flush,
    layers,
    transaction_state,
    workspace,
)
from herdpy_sql.catalog import Catalog, Column, Index, KeyPart, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BIGINT, BYTEA, INTEGER, TEXT

Rows = dict[bytes, tuple]
State = dict[int, Rows]


def numbers(space):
    n = space.next_id
    columns = (
        Column("id", INTEGER, not_null=True),
        Column("a", INTEGER),
        Column("b", TEXT),
    )
    unique = Index(n + 1, f"numbers{n}_a_key", n, (KeyPart(1),), unique=True, constraint=True)
    plain = Index(n + 2, f"numbers{n}_b", n, (KeyPart(2, descending=True, nulls_first=True), KeyPart(1)))
    return Table(n, f"numbers{n}", columns, (KeyPart(0),), f"numbers{n}_pkey", (), (unique, plain))


def texts(space):
    n = space.next_id
    columns = (Column("k", TEXT, not_null=True), Column("n", BIGINT, not_null=True), Column("v", BYTEA))
    return Table(n, f"texts{n}", columns, (KeyPart(0, descending=True), KeyPart(1)), f"texts{n}_pkey")


def random_values(rng, table):
    if table.name.startswith("numbers"):
        return (
            rng.randrange(-40, 60),
            rng.choice([None, rng.randrange(30)]),
            rng.choice([None, "", "b", "bb", "x" * rng.choice([3, 479, 480, 481, 600])]),
        )
    prefix = rng.choice(["", "a", "p" * 478, "p" * 479, "p" * 480, "p" * 500])
    return (
        prefix + rng.choice(["", "a", "b", "c" * 30]),
        rng.randrange(3),
        rng.choice([None, b"", b"v" * 5]),
    )


def entry_of(table, index, values, key):
    picked = [values[part.position] for part in index.parts]
    made = table.index_codec(index).encode(picked)
    return made if index.unique and None not in picked else made + key


def violates(table, rows: Rows, values, replaced: bytes | None = None):
    """The name of a constraint that a new row breaks, or None."""
    key = table.key_codec.encode([values[p] for p in table.key_positions])
    if key in rows and key != replaced:
        return {table.key_name}
    names = set()
    for index in table.indexes:
        if not index.unique:
            continue
        picked = [values[part.position] for part in index.parts]
        if None in picked:
            continue
        for other, row in rows.items():
            if other != replaced and [row[part.position] for part in index.parts] == picked:
                names.add(index.name)
    return names or None


def check_reader(reader, catalog: Catalog, state: State, rng=None):
    assert set(catalog.tables) == set(state)
    for table in catalog.tables.values():
        rows = state[table.id]
        decode = table.row_codec.decode
        expected = sorted(rows.items())
        assert [(k, decode(v)) for k, v in reader.scan(table)] == expected
        assert [(k, decode(v)) for k, v in reader.scan(table, reverse=True)] == expected[::-1]
        for index in table.indexes:
            entries = sorted((entry_of(table, index, row, key), key) for key, row in rows.items())
            assert list(reader.index_scan(table, index)) == entries
            assert list(reader.index_scan(table, index, reverse=True)) == entries[::-1]
        if rng is None or not expected:
            continue
        bounds = [key for key, _ in rng.choices(expected, k=2)]
        bounds += [bounds[0] + b"\0", bounds[1][:-1], bounds[0][:480]]
        low, high = sorted(rng.sample([*bounds, None], 2), key=lambda b: b or b"")
        if low is not None and high is None:
            high = rng.choice([None, b"\xff"])
        within = [(k, v) for k, v in expected if (low is None or k >= low) and (high is None or k < high)]
        assert [(k, decode(v)) for k, v in reader.scan(table, low, high)] == within
        assert [(k, decode(v)) for k, v in reader.scan(table, low, high, reverse=True)] == within[::-1]
        for key in bounds:
            image = reader.get(table, key)
            assert (None if image is None else decode(image)) == rows.get(key)


def check_arrow(snapshot, catalog, state, rng):
    for table in catalog.tables.values():
        positions = rng.sample(range(3), rng.randrange(1, 4))
        expected = sorted(state[table.id].items())
        low = high = None
        if expected and rng.random() < 0.4:
            low = rng.choice([None, rng.choice(expected)[0]])
            high = rng.choice([None, rng.choice(expected)[0]])
        got = snapshot.arrow(table, positions, low, high)
        assert got.column_names == [table.columns[p].name for p in positions]
        within = [
            item for item in expected if (low is None or item[0] >= low) and (high is None or item[0] < high)
        ]
        decode = table.row_codec.decode
        assert list(snapshot.keys(table, low, high)) == [key for key, _ in within]
        for count in (None, len(within)):
            images = snapshot.images(table, low, high, count)
            assert [decode(image) for image in images] == [row for _, row in within]
        rows = [tuple(row[p] for p in positions) for _, row in within]
        found = zip(*(column.to_pylist() for column in got.columns), strict=True)
        assert sorted(found, key=repr) == sorted(rows, key=repr)


class StoreModel:
    """Runs random operations on a store and on dicts, and compares."""

    def __init__(self, path: Path, rng: random.Random):
        self.path, self.rng = path, rng
        self.store = self.open()
        self.log = []  # (lsn, encoded records, state after, catalog after)
        self.tail = []  # pending: (token, records, layer, state, catalog)
        self.state: State = {}  # visible to everyone
        self.catalog = Catalog()
        self.applied = ({}, Catalog())
        self.held = []
        self.position = 0

    def open(self):
        return Store.open(self.path)

    def commit(self, space, state):
        if not space.records:
            return
        token = self.store.push_pending(space.layer, space.own_catalog)
        self.state, self.catalog = state, space.catalog
        self.tail.append((token, space.records, space.layer, state, space.catalog))

    def apply_some(self, count):
        """An entry of the log with the next transactions became durable."""
        entry, self.tail = self.tail[:count], self.tail[count:]
        if not entry:
            return
        self.position += 1
        lsn = LSN(1, self.position)
        encoded = [[record.encode() for record in one[1]] for one in entry]
        shared = self.rng.random() < 0.5
        self.store.apply_entry(lsn, [(one[1], one[2] if shared else None) for one in entry])
        self.store.pop_pending(entry[-1][0])
        self.applied = entry[-1][3:]
        self.log.append((lsn, encoded, *self.applied))

    def drop(self):
        self.store.drop_pending()
        self.tail.clear()
        self.state, self.catalog = self.applied

    def crash(self):
        """Lose the memory, replay the log."""
        for snapshot, _, _ in self.held:
            snapshot.close()
        self.held.clear()
        self.store.disk.env.close()  # leaves no mark of a store that was closed
        self.store = self.open()
        self.tail.clear()
        for lsn, encoded, _, _ in self.log:
            if lsn > self.store.durable:
                parts = [([decode_record(one) for one in part], None) for part in encoded]
                self.store.apply_entry(lsn, parts)
        self.state, self.catalog = self.applied

    def transaction(self):
        rng = self.rng
        space = Workspace(self.store, NoLocks(), self)
        state = {table: dict(rows) for table, rows in self.state.items()}
        for _ in range(rng.randrange(1, 6)):
            mark = space.mark()
            before = {table: dict(rows) for table, rows in state.items()}
            catalog_before = space.catalog
            try:
                expect = self.operation(space, state)
            except SqlError as error:
                if error.sqlstate != "23505" or error.fields["constraint"] not in self.expected_error:
                    raise
                space.undo(mark)
                state = before
            else:
                assert expect
                if rng.random() < 0.2:
                    space.undo(mark)
                    state = before
                    assert space.catalog is catalog_before
            if rng.random() < 0.2:
                check_reader(space, space.catalog, state, rng)
            if rng.random() < 0.2:
                snapshot = space.snapshot()
                self.held.append((snapshot, space.catalog, {t: dict(r) for t, r in state.items()}))
        check_reader(space, space.catalog, state, rng)
        if rng.random() < 0.85:
            self.commit(space, state)

    expected_error = frozenset()

    def operation(self, space, state) -> bool:
        """One write. Sets ``expected_error`` before it when the write has to fail."""
        rng = self.rng
        catalog = space.catalog
        self.expected_error = frozenset()
        if not catalog.tables or rng.random() < 0.03:
            table = rng.choice([numbers, texts])(space)
            space.create_table(table)
            state[table.id] = {}
            return True
        table = catalog.tables[rng.choice(sorted(catalog.tables))]
        rows = state[table.id]
        choice = rng.random()
        if choice < 0.02:
            space.drop_table(table)
            del state[table.id]
        elif choice < 0.05:
            space.truncate(table)
            rows.clear()
        elif choice < 0.09 and table.indexes:
            space.drop_index(table, rng.choice(table.indexes))
        elif choice < 0.14:
            self.create_index(space, table, rows)
        elif choice < 0.35:
            values = random_values(rng, table)
            self.expected_error = violates(table, rows, values) or frozenset()
            space.insert(table, values)
            self.put(table, rows, values)
        elif choice < 0.6:
            self.insert_bulk(space, table, rows)
        elif choice < 0.85 and rows:
            key = rng.choice(sorted(rows))
            values = random_values(rng, table)
            if rng.random() < 0.5:
                values = tuple(
                    old if p in table.key_positions else new
                    for p, (old, new) in enumerate(zip(rows[key], values, strict=True))
                )
            self.expected_error = violates(table, rows, values, key) or frozenset()
            space.update(table, key, space.get(table, key), values)
            del rows[key]
            self.put(table, rows, values)
        elif rows:
            for key in rng.sample(sorted(rows), min(len(rows), rng.randrange(1, 5))):
                space.delete(table, key, space.get(table, key))
                del rows[key]
        return not self.expected_error

    @staticmethod
    def put(table, rows, values):
        rows[table.key_codec.encode([values[p] for p in table.key_positions])] = tuple(values)

    def insert_bulk(self, space, table, rows):
        rng = self.rng
        many = [random_values(rng, table) for _ in range(rng.choice([1, 9, 20]))]
        if rng.random() < 0.7:  # mostly rows that can be added
            kept, seen = [], dict(rows)
            for values in many:
                if violates(table, seen, values) is None:
                    kept.append(values)
                    self.put(table, seen, values)
            many = kept
        wrong, seen = set(), dict(rows)
        for values in many:
            wrong |= violates(table, seen, values) or set()
            self.put(table, seen, values)
        self.expected_error = wrong
        if rng.random() < 0.5:
            assert space.insert_many(table, iter(many)) == len(many)
        elif many:
            arrays = [
                datums_to_array(f, list(c))
                for f, c in zip(table.fields, zip(*many, strict=True), strict=True)
            ]
            batch = pa.record_batch(arrays, [column.name for column in table.columns])
            assert space.insert_batch(table, batch) == len(many)
            assert isinstance(space.records[-1], InsertBatch)
        for values in many:
            self.put(table, rows, values)

    def create_index(self, space, table, rows):
        rng = self.rng
        n = space.next_id
        position = rng.choice([1, 2] if table.name.startswith("numbers") else [0, 1])
        index = Index(n, f"i{n}", table.id, (KeyPart(position),), unique=rng.random() < 0.3)
        seen: Rows = {}
        probe = Table(table.id, table.name, table.columns, table.key, table.key_name, (), (index,))
        for key, values in rows.items():
            if violates(probe, seen, values):
                self.expected_error = {index.name}
            seen[key] = values
        space.create_index(table, index)

    def step(self):
        rng = self.rng
        choice = rng.random()
        if choice < 0.55:
            self.transaction()
        elif choice < 0.8:
            self.apply_some(rng.randrange(1, 4))
        elif choice < 0.88:
            self.store.flush()
            assert self.store.durable == self.store.applied
        elif choice < 0.91:
            self.drop()
        elif choice < 0.93:
            self.crash()
        elif choice < 0.97:
            self.held.append((self.store.snapshot(None), self.catalog, self.state))
        elif self.held:
            snapshot, _, _ = self.held.pop(rng.randrange(len(self.held)))
            snapshot.close()
        if rng.random() < 0.3:
            check_reader(Workspace(self.store, NoLocks(), None), self.catalog, self.state, rng)
        for snapshot, catalog, state in self.held:
            if rng.random() < 0.2:
                check_reader(snapshot, catalog, state, rng)
            if rng.random() < 0.2:
                check_arrow(snapshot, catalog, state, rng)
        if rng.random() < 0.3:
            check_arrow(self.store.snapshot(None), self.catalog, self.state, rng)

    def run(self, steps):
        """Steps, a flush, a crash, an end; what the store found wrong, and what the flush left in memory."""
        for _ in range(steps):
            self.step()
        self.apply_some(len(self.tail))
        self.store.flush()
        left = list(self.store.check()), self.store.memtable_rows, bool(self.store.memory.visible)
        self.crash()
        check_reader(Workspace(self.store, NoLocks(), None), self.catalog, self.state, self.rng)
        self.store.close()
        return left


@pytest.fixture(params=["usual", "small"])
def limits(request, monkeypatch):
    """The usual limits, or such small ones that a few rows reach every path."""
    if request.param == "small":
        for module, name, value in (
            (layers, "_TAIL", 3),
            (layers, "_PIECE", 2),
            (layers, "_ADOPT_ROWS", 2),
            (layers, "_MERGE_ROWS", 8),
            (layers, "_PENDING_CHAIN", 2),
            (dead_ranges, "MANY", 2),
            (dead_ranges, "_MOST_RANGES", 4),
            (transaction_state, "MANY", 2),
            (workspace, "_FEW", 1),
            (flush, "_CHUNK", 3),
            (columns, "_BLOCK_ROWS", 4),
            (columns, "_FEW", 6),
            (columns, "_MANY", 6),
            (columns, "_SEARCHED", 2),
        ):
            assert hasattr(module, name)
            monkeypatch.setattr(module, name, value)


NOTHING_LEFT = ([], 0, False)


@pytest.mark.parametrize("seed", range(8))
def test_store_equals_model(tmp_path, seed, limits):
    assert StoreModel(tmp_path / "store", random.Random(seed)).run(90) == NOTHING_LEFT


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_store_equals_model_for_long(tmp_path, seed, limits):
    assert StoreModel(tmp_path / "store", random.Random(seed)).run(400) == NOTHING_LEFT
