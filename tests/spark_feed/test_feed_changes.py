"""What each record of the log becomes in a feed, on logs made by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from herdpy.codec.arrow_bytes import batch_to_keys
from herdpy.log import (
    LSN,
    AlterTable,
    Before,
    CreateIndex,
    CreateTable,
    Delete,
    DropTable,
    Insert,
    LoadBatch,
    LoadDone,
    LoadOp,
    LoggedTransaction,
    StagedPart,
    Truncate,
    Update,
)
from herdpy_spark.feed.changes import ChangeReader
from herdpy_spark.feed.table import FeedShape, FollowedTable, SchemaChangedError
from herdpy_sql.catalog import HIDDEN_KEY, Column, Index, KeyPart, Table
from herdpy_sql.definitions import encode_index, encode_table
from herdpy_sql.types import BIGINT, INTEGER, TEXT
from tests.support.feed_replay import Replica

TABLE = Table(7, "t", (Column("id", INTEGER, not_null=True), Column("v", TEXT)), (KeyPart(0),), "t_pkey")
UNKEYED = Table(
    8,
    "t",
    (Column("v", TEXT), Column(HIDDEN_KEY, BIGINT, not_null=True, hidden=True)),
    (KeyPart(1),),
    "t_pkey",
)


@dataclass
class Entry:
    lsn: LSN
    taken: list[LoggedTransaction]

    def transactions(self):
        return self.taken


def key(number, table=TABLE):
    return table.key_codec.encode((number,))


def row(*values, table=TABLE):
    return table.row_codec.encode(values)


def insert(number, value):
    return Insert(7, key(number), row(number, value))


class Staged:
    """Rows of parts, by the ledger that they stand in."""

    def __init__(self, table, columns):
        self.table, self.columns, self.rows = table, columns, {}

    def part(self, *rows):
        number = len(self.rows)
        names = [self.table.columns[at].name for at in self.columns]
        types = {"id": pa.int32(), "v": pa.string()}
        lists = list(zip(*rows, strict=True))
        self.rows[number] = pa.RecordBatch.from_arrays(
            [pa.array(one, types[name]) for one, name in zip(lists, names, strict=True)], names=names
        )
        return StagedPart(number, 0, 0, 0, len(rows))

    def __call__(self, record, part):
        batch = self.rows[record.parts[part].ledger_id]
        yield batch.slice(0, 1)  # in batches of any size
        yield batch.slice(1)


def none_staged(record, part):
    raise AssertionError("nothing is staged here")


def feed(*transactions, table=TABLE, shape=None, staged=none_staged, parts=None, first=0):
    """The changes of transactions, each in an entry of its own, as dictionaries."""
    entries = [Entry(LSN(3, first + number), [one]) for number, one in enumerate(transactions)]
    reader = ChangeReader(FollowedTable("t", table), shape or FeedShape.of(TABLE), staged, parts)
    found = []
    for _table, batch in reader.changes(entries):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def told(changes, *names):
    return [tuple(change[name] for name in names) for change in changes]


def test_rows_come_with_their_keys_and_where_they_are_from():
    (change,) = feed(LoggedTransaction(1_767_225_600_000_000, [insert(1, "a")], b"req-1"))
    assert change["op"] == "insert"
    assert change["key"] == {"id": 1}
    assert change["after"] == {"id": 1, "v": "a"}
    assert change["before"] is None
    assert (change["lsn"], change["position"], change["transaction_id"]) == ("3:0", 0, "3:0/0")
    assert change["request_id"] == "req-1"
    assert change["commit_time"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert change["sequence"] == {"ledger": 3, "entry": 0, "transaction": 0, "position": 0}


def test_several_transactions_of_an_entry_are_told_apart():
    entry = Entry(
        LSN(3, 5),
        [LoggedTransaction(1, [insert(1, "a")]), LoggedTransaction(2, [insert(2, "b"), insert(3, "c")])],
    )
    reader = ChangeReader(FollowedTable("t", TABLE), FeedShape.of(TABLE), none_staged)
    ((_table, batch),) = reader.changes([entry])
    assert told(batch.to_pylist(), "transaction_id", "position") == [("3:5/0", 0), ("3:5/1", 0), ("3:5/1", 1)]


def test_a_row_that_moves_to_another_key_is_a_delete_and_an_insert():
    moved = Update(7, key(1), key(2), row(2, "b"))
    found = feed(LoggedTransaction(1, [moved, Update(7, None, key(2), row(2, "c"))]))
    assert told(found, "op", "position", "key", "after", "other_key") == [
        ("delete", 0, {"id": 1}, None, {"id": 2}),
        ("insert", 1, {"id": 2}, {"id": 2, "v": "b"}, {"id": 1}),
        ("update", 2, {"id": 2}, {"id": 2, "v": "c"}, None),
    ]


def test_images_of_before_go_with_the_change_of_their_row():
    found = feed(
        LoggedTransaction(
            1,
            [
                Before(7, key(2), row(2, "two")),
                Before(7, key(1), row(1, "old")),
                Delete(7, key(2)),
                Update(7, key(1), key(5), row(5, "new")),
                Delete(7, key(3)),
            ],
        ),
        LoggedTransaction(2, [Delete(7, key(1))]),
    )
    assert told(found, "op", "key", "before") == [
        ("delete", {"id": 2}, {"id": 2, "v": "two"}),
        ("delete", {"id": 1}, {"id": 1, "v": "old"}),
        ("insert", {"id": 5}, None),
        ("delete", {"id": 3}, None),
        ("delete", {"id": 1}, None),
    ]


def test_other_tables_take_places_and_nothing_else():
    found = feed(LoggedTransaction(1, [Insert(9, b"k", b"r"), insert(1, "a"), Truncate(9), Truncate(7)]))
    assert told(found, "op", "position") == [("insert", 1), ("truncate", 3)]


def test_definitions_are_carried():
    altered = replace(TABLE, checks=())
    again = replace(TABLE, id=20)
    other = replace(TABLE, id=21, name="other")
    index = Index(9, "t_v", 7, (KeyPart(1),))
    found = feed(
        LoggedTransaction(
            1, [CreateTable(encode_table(other)), CreateTable(encode_table(TABLE)), insert(1, "a")]
        ),
        LoggedTransaction(2, [AlterTable(encode_table(altered)), AlterTable(encode_table(other))]),
        LoggedTransaction(3, [CreateIndex(7, encode_index(index)), insert(2, "b")]),
        LoggedTransaction(4, [DropTable(7), insert(3, "gone"), CreateTable(encode_table(again))]),
        LoggedTransaction(5, [insert(4, "gone"), Insert(20, key(5), row(5, "there"))]),
        table=None,
    )
    assert told(found, "op", "lsn", "position", "schema") == [
        ("create", "3:0", 1, encode_table(TABLE).decode()),
        ("insert", "3:0", 2, None),
        ("alter", "3:1", 0, encode_table(altered).decode()),
        ("insert", "3:2", 1, None),
        ("drop", "3:3", 0, encode_table(replace(altered, indexes=(index,))).decode()),
        ("create", "3:3", 2, encode_table(again).decode()),
        ("insert", "3:4", 1, None),
    ]
    assert found[-1]["key"] == {"id": 5}


def test_a_table_without_room_in_the_feed_ends_it():
    more = replace(TABLE, id=20, columns=(*TABLE.columns, Column("w", TEXT)))
    typed = replace(TABLE, id=20, columns=(TABLE.columns[0], Column("v", BIGINT)))
    fewer = replace(TABLE, id=20, columns=TABLE.columns[:1])
    for made, why in ((more, 'has a column "w"'), (typed, 'column "v" .* of type bigint')):
        create = LoggedTransaction(1, [CreateTable(encode_table(made))])
        assert told(feed(create, table=None), "op") == [("create",)]
        values = (1, "a", "b") if made is more else (1, 2)
        image = row(*values, table=made)
        with pytest.raises(SchemaChangedError, match=why):
            feed(create, LoggedTransaction(2, [Insert(20, key(1), image)]), table=None)
    inserted = LoggedTransaction(2, [Insert(20, key(1), row(1, table=fewer))])
    found = feed(LoggedTransaction(1, [CreateTable(encode_table(fewer))]), inserted, table=None)
    assert found[1]["after"] == {"id": 1, "v": None}


def load(op, parts, present=b"", first_row_id=-1, table_id=7):
    batch = LoadBatch(table_id, op, first_row_id, tuple(parts), present)
    return LoggedTransaction(1, [batch, LoadDone("l", table_id, 0, 0, 0, 0)])


def test_loads_are_rows_with_the_effect_that_they_had():
    staged = Staged(TABLE, (0, 1))
    parts = [staged.part((1, "a"), (2, "b"), (3, "c")), staged.part((4, "d"), (1, "e"))]
    present = bytes([0b10010])  # rows 1 and 4

    def effects(op):
        found = feed(load(op, parts, present if op != LoadOp.INSERT else b""), staged=staged)
        return [(change["op"], change["key"]["id"], change["position"]) for change in found]

    assert effects(LoadOp.INSERT) == [("insert", id_, at) for at, id_ in enumerate([1, 2, 3, 4, 1])]
    assert effects(LoadOp.UPSERT) == [
        ("insert", 1, 0),
        ("update", 2, 1),
        ("insert", 3, 2),
        ("insert", 4, 3),
        ("update", 1, 4),
    ]
    assert effects(LoadOp.IGNORE) == [("insert", 1, 0), ("insert", 3, 2), ("insert", 4, 3)]


def test_loads_delete_by_key():
    staged = Staged(TABLE, (0,))
    found = feed(load(LoadOp.DELETE, [staged.part((1,), (2,), (3,))], bytes([0b101])), staged=staged)
    assert told(found, "op", "key", "after", "position") == [
        ("delete", {"id": 1}, None, 0),
        ("delete", {"id": 3}, None, 2),
    ]


def test_loads_number_the_rows_of_tables_without_a_key():
    staged = Staged(UNKEYED, (0,))
    parts = [staged.part(("a",), ("b",)), staged.part(("c",))]
    found = feed(
        load(LoadOp.INSERT, parts, first_row_id=50, table_id=8),
        table=UNKEYED,
        shape=FeedShape.of(UNKEYED),
        staged=staged,
    )
    assert told(found, "key", "after") == [
        ({HIDDEN_KEY: 50}, {"v": "a"}),
        ({HIDDEN_KEY: 51}, {"v": "b"}),
        ({HIDDEN_KEY: 52}, {"v": "c"}),
    ]


def test_a_load_in_slices_is_the_load():
    staged = Staged(TABLE, (0, 1))
    parts = [staged.part(*[(10 * number + one, "v") for one in range(3)]) for number in range(5)]
    transactions = [
        LoggedTransaction(1, [insert(100, "x")]),
        load(LoadOp.INSERT, parts[:3]),
        LoggedTransaction(2, [Truncate(7)]),
        load(LoadOp.INSERT, parts[3:]),
    ]
    whole = feed(*transactions, staged=staged)
    sliced = [
        change
        for low, high in ((0, 1), (1, 4), (4, 9))
        for change in feed(*transactions, staged=staged, parts=(low, high))
    ]
    assert sorted(sliced, key=lambda change: tuple(change["sequence"].values())) == whole
    replica = Replica({})
    for change in whole:
        replica.apply(change)
    assert len(replica.rows) == 6


def test_a_part_with_other_rows_than_the_log_says_is_refused():
    staged = Staged(TABLE, (0, 1))
    part = staged.part((1, "a"), (2, "b"))
    with pytest.raises(ValueError, match="part 0 of the load at 3:0 has 2 rows, not 3"):
        feed(load(LoadOp.INSERT, [replace(part, rows=3)]), staged=staged)


def test_many_changes_come_in_batches_of_bounded_size():
    many = [insert(number, "v") for number in range(25_000)]
    reader = ChangeReader(FollowedTable("t", TABLE), FeedShape.of(TABLE), none_staged)
    entry = Entry(LSN(3, 0), [LoggedTransaction(1, many)])
    batches = [batch for _table, batch in reader.changes([entry])]
    assert [batch.num_rows for batch in batches] == [10_000, 10_000, 5_000]
    keys = batch_to_keys(
        TABLE.key_codec.fields, [pa.chunked_array([b.column("key").field("id") for b in batches])]
    )
    assert keys == [one.key for one in many]
