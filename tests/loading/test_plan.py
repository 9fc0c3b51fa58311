"""What the writers of a load have to stage: columns, types, and values for what they do not have."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from herdpy_server.loading import BulkLoad, LoadMode
from herdpy_sql.errors import SqlError

TABLE = """CREATE TABLE t (
    a int, b text, v numeric(9,2) NOT NULL DEFAULT 1.5, at timestamptz DEFAULT now(),
    u uuid DEFAULT gen_random_uuid(), needed int NOT NULL, PRIMARY KEY (b, a)
)"""


def test_columns_in_order_with_their_types(db):
    db(TABLE)
    plan = db.plan("t", "append", ["u", "needed", "a", "b", "v", "at"])
    assert [(field.name, field.type, field.nullable) for field in plan.schema] == [
        ("a", pa.int32(), False),
        ("b", pa.string(), False),
        ("v", pa.decimal128(9, 2), False),
        ("at", pa.timestamp("us", "UTC"), True),
        ("u", pa.uuid(), True),
        ("needed", pa.int32(), False),
    ]
    assert plan.defaults is None
    assert plan.table_id == db.database.tablespace.catalog.by_name["t"].id


def test_of_rows_to_delete_the_key_is_staged_in_its_order(db):
    db(TABLE)
    assert db.plan("t", "delete", ["a", "b"]).schema.names == ["b", "a"]
    assert db.plan("t", "delete", ["v", "a", "b"]).schema.names == ["b", "a"]


def test_defaults_that_are_one_value_are_evaluated_when_it_begins(db):
    db(TABLE)
    defaults = db.plan("t", "append", ["a", "b", "u", "needed"]).defaults
    assert defaults.schema.names == ["v", "at"]
    (row,) = defaults.to_pylist()
    assert str(row["v"]) == "1.50"
    age = datetime.datetime.now(datetime.UTC) - row["at"]
    assert abs(age) < datetime.timedelta(minutes=5)


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore"])
def test_what_is_another_value_in_each_row_is_not_staged(db, mode):
    db(TABLE, "ALTER TABLE t ADD COLUMN n int GENERATED ALWAYS AS IDENTITY, ADD COLUMN m serial")
    plan = db.plan("t", mode, ["a", "b", "needed"])
    assert plan.schema.names == ["a", "b", "v", "at", "needed"]
    assert plan.defaults.schema.names == ["v", "at"]
    plan = db.plan("t", mode, ["m", "a", "b", "v", "at", "needed"])
    assert plan.schema.names == ["a", "b", "v", "at", "needed", "m"]
    assert plan.defaults is None


def test_of_an_upsert_only_what_is_given_is_staged(db):
    db(TABLE)
    plan = db.plan("t", "upsert", ["needed", "b", "a"])
    assert plan.schema.names == ["a", "b", "needed"]
    assert plan.defaults is None


@pytest.mark.parametrize(
    ("mode", "columns", "state", "named"),
    [
        ("append", ["a", "b", "u"], "23502", '"needed"'),
        ("append", ["a", "b", "x"], "42703", '"x"'),
        ("append", ["a", "b", "a"], "42701", '"a"'),
        ("delete", ["a"], "22023", "column b of table t"),
        ("upsert", ["a", "needed", "v", "at"], "22023", "column b of table t"),
        ("upsert", ["a", "b", "v", "at"], "23502", '"needed"'),
        ("ignore", ["a", "needed"], "23502", '"b"'),
    ],
)
def test_what_cannot_be_planned(db, mode, columns, state, named):
    db(TABLE)
    with pytest.raises(SqlError) as caught:
        db.plan("t", mode, columns)
    assert caught.value.sqlstate == state
    assert named in caught.value.message


@pytest.mark.parametrize("load_id", ["", "x" * 65, "é" * 33, "a\0b"])
def test_what_is_no_id(load_id):
    with pytest.raises(SqlError) as caught:
        BulkLoad(load_id, "t", LoadMode.APPEND)
    assert caught.value.sqlstate == "22023"
