"""Rows applied from their bytes, several entries at once: the same as each transaction's records in turn."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import herdpy
from herdpy.log import LSN, LogError, LoggedTransaction
from herdpy.log.records import (
    Before,
    Delete,
    GatheredRows,
    Insert,
    Notify,
    Record,
    SequenceAdvance,
    TablesChecksum,
    Truncate,
    Update,
    gather_rows,
)
from herdpy_server.store import Store, row_changes
from herdpy_server.store.check import sums
from herdpy_server.store.row_changes import EncodedChanges

LATER_US = 4 * 10**15

Logged = list[tuple[LSN, LoggedTransaction]]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    """Three alike: tables without indexes, one with two, one without a key; a sequence."""
    with herdpy.connect(f"herdpy://{tmp_path}/one", autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id INT PRIMARY KEY, v TEXT)").close()
        connection.execute("CREATE TABLE b (id TEXT PRIMARY KEY, n BIGINT)").close()
        connection.execute("CREATE TABLE i (id INT PRIMARY KEY, v TEXT, w TEXT)").close()
        connection.execute("CREATE UNIQUE INDEX i_v ON i (v)").close()
        connection.execute("CREATE INDEX i_w ON i (w, id)").close()
        connection.execute("CREATE SEQUENCE s").close()
    for name in ("other", "third"):
        shutil.copytree(tmp_path / "one", tmp_path / name)
    opened = [Store.open(tmp_path / name / "store") for name in ("one", "other", "third")]
    yield opened
    for store in opened:
        store.close()


class Rows:
    """Makes records that fit the rows that their predecessors left."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.rng = rng
        self.tables = [store.catalog.by_name[name] for name in "abi"]
        self.sequence = next(one.id for one in store.catalog.objects.values() if one.name == "s")
        self.there: dict[int, set[int]] = {table.id: set() for table in self.tables}
        self.serial = self.entry = 0

    def _key(self, table: object, at: int) -> bytes:
        return table.key_codec.encode([f"k{at}" if table.name == "b" else at])  # type: ignore[attr-defined]

    def _image(self, table: object, at: int) -> bytes:
        self.serial += 1
        values: dict[str, tuple[object, ...]] = {
            "a": (at, "x" * self.rng.randrange(40)),
            "b": (f"k{at}", self.serial),
            "i": (at, f"u{self.serial}", self.rng.choice([None, "w", "ww"])),
        }
        return table.row_codec.encode(values[table.name])  # type: ignore[attr-defined]

    def record(self) -> Record:
        rng, table = self.rng, self.rng.choice(self.tables)
        there = self.there[table.id]
        at = rng.randrange(50)
        match rng.randrange(13):
            case 12:
                return Notify(self.serial, b"channel", b"%d" % rng.randrange(10))
            case 0:
                return SequenceAdvance(self.sequence, b"%20d" % rng.randrange(10**9))
            case 1:
                return Before(table.id, self._key(table, at), b"old")
            case 2 if there and at not in there:
                old = rng.choice(sorted(there))
                there.remove(old)
                there.add(at)
                return Update(table.id, self._key(table, old), self._key(table, at), self._image(table, at))
            case 3 | 4 if at in there:
                there.remove(at)
                return Delete(table.id, self._key(table, at))
        if at in there:
            return Update(table.id, None, self._key(table, at), self._image(table, at))
        there.add(at)
        return Insert(table.id, self._key(table, at), self._image(table, at))

    def logged(self, count: int) -> Logged:
        """Transactions of entries that follow one another."""
        made = []
        self.entry += 1
        for _ in range(count):
            self.entry += self.rng.randrange(2)
            self.serial += 1
            records = [self.record() for _ in range(self.rng.choice([0, 1, 2, 5, 20]))]
            name = b"c%d" % self.serial if self.rng.random() < 0.3 or not records else b""
            made.append((LSN(9, self.entry), LoggedTransaction(self.rng.randrange(LATER_US), records, name)))
        return made


def apply_together(store: Store, transactions: Logged) -> None:
    changes = store.encoded_changes()
    for lsn, one in transactions:
        changes.add(lsn, one.encode())
    assert changes.is_plain
    assert changes.notifications == [
        record for _lsn, one in transactions for record in one.records if isinstance(record, Notify)
    ]
    store.apply_changes(transactions[-1][0], changes)


def groups(rng: random.Random, logged: Logged) -> Iterator[Logged]:
    """They one after the other, some at a time; an entry is never cut."""
    while logged:
        stop = rng.randrange(len(logged)) + 1
        while stop < len(logged) and logged[stop][0] == logged[stop - 1][0]:
            stop += 1
        yield logged[:stop]
        logged = logged[stop:]


def state(store: Store) -> tuple[object, ...]:
    """All that applying changes."""
    snapshot, lsn = store.applied_snapshot()
    try:
        found = sorted(sums(snapshot, threading.Event()))
    finally:
        snapshot.close()
    tables = store.catalog.tables
    rows = {one: store.counts.of_table(one, 0) for one in tables}
    return found, lsn, rows, list(store.outcomes), store.committed_us, store.catalog


@pytest.mark.parametrize("seed", range(12))
def test_they_are_applied_as_their_records_are(stores: list[Store], seed: int) -> None:
    in_turn, together, again = stores
    rng = random.Random(seed)
    rows = Rows(in_turn, rng)
    for _ in range(4):
        logged = rows.logged(25)
        for lsn, one in logged:
            in_turn.apply_logged(lsn, [(lsn, one)])
        for some in groups(rng, logged):
            apply_together(together, some)
        apply_together(again, logged)
        assert state(together) == state(in_turn) == state(again)
        if rng.random() < 0.5:
            for store in stores:
                store.flush()
            assert in_turn.table_checksums() == together.table_checksums() == again.table_checksums()
        assert list(together.check()) == []
    assert together.memory.rows == in_turn.memory.rows


def test_an_apply_that_loses_what_a_later_record_changes_is_found(
    stores: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    class First(dict[bytes, bytes | None]):
        def __setitem__(self, key: bytes, row: bytes | None) -> None:
            super().setdefault(key, row)

    made = GatheredRows

    def wrong() -> GatheredRows:
        one = made()
        one.rows = First()
        return one

    monkeypatch.setattr(row_changes, "GatheredRows", wrong)
    with pytest.raises(AssertionError):
        test_they_are_applied_as_their_records_are(stores, 0)


@pytest.mark.parametrize("kind", ["truncate", "checksum", "no table"])
def test_what_is_to_be_applied_by_itself_is_not_taken(stores: list[Store], kind: str) -> None:
    store = stores[0]
    rows = Rows(store, random.Random(1))
    records: dict[str, Record] = {
        "truncate": Truncate(rows.tables[0].id),
        "checksum": TablesChecksum([]),
        "no table": Truncate(999),
    }
    changes = store.encoded_changes()
    changes.add(LSN(9, 0), LoggedTransaction(1, [rows.record(), records[kind], rows.record()]).encode())
    assert not changes.is_plain


def outcome(store: Store, data: bytes) -> str:
    """What becomes of a transaction's bytes: each way is to say the same."""
    changes = EncodedChanges(store.catalog)
    try:
        changes.add(LSN(9, 0), data)
    except LogError as error:
        return f"{type(error).__name__}: {error}"
    return "taken" if changes.is_plain else "not taken"


def test_damaged_bytes_are_refused_as_their_decoding_refuses_them(stores: list[Store]) -> None:
    store = stores[0]
    rng = random.Random(3)
    rows = Rows(store, rng)
    refused = 0
    for _ in range(300):
        data = bytearray(LoggedTransaction(1, [rows.record() for _ in range(rng.randrange(1, 5))]).encode())
        match rng.randrange(3):
            case 0:
                del data[rng.randrange(len(data)) :]
            case 1:
                data += b"x" * rng.randrange(1, 20)
            case 2:
                data[rng.randrange(9, len(data))] = rng.randrange(256)
        try:
            LoggedTransaction.decode(bytes(data))
        except LogError:
            refused += 1
            assert outcome(store, bytes(data)) != "taken"
        else:
            assert outcome(store, bytes(data)) == "taken"
    assert refused > 50


def test_a_table_that_is_not_there_is_refused_as_records_are(stores: list[Store]) -> None:
    from_bytes, from_records, _ = stores
    one = LoggedTransaction(1, [Insert(999, b"k", b"row")])
    changes = from_bytes.encoded_changes()
    changes.add(LSN(9, 0), one.encode())
    errors = []
    for apply in (
        lambda: from_bytes.apply_changes(LSN(9, 0), changes),
        lambda: from_records.apply_logged(LSN(9, 0), [(LSN(9, 0), one)]),
    ):
        with pytest.raises(Exception, match="does not fit") as raised:
            apply()
        errors.append((type(raised.value), str(raised.value)))
    assert errors[0] == errors[1]
    assert from_bytes.is_spoilt
    assert from_records.is_spoilt


def test_gathering_stops_at_what_is_no_row_of_its_tables() -> None:
    gathered = {7: GatheredRows()}
    records: list[Record] = [
        Insert(7, b"key 1", b"row 1"),
        Update(7, None, b"key 2", b"row 2"),
        Delete(7, b"key 1"),
        Insert(8, b"key 3", b"row 3"),
    ]
    data = b"".join(one.encode() for one in records)
    at, left = gather_rows(data, 0, 4, gathered)
    assert (at, left) == (len(data) - len(records[-1].encode()), 1)
    assert gathered[7].rows == {b"key 1": None, b"key 2": b"row 2"}
    assert (gathered[7].net, gathered[7].size_bytes) == (0, 5 * 5)
