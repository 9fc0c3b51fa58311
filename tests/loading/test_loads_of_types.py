"""What a load's columns keep: the forms of types, in arrays too; what is no value of a type is named."""

from __future__ import annotations

from typing import Any

import pytest

import herdpy
from herdpy_sql.errors import SqlError
from herdpy_sql.values.inets import parse_cidr, parse_inet
from tests.loading.conftest import Db

KEPT = [
    ("varchar(3)[]", ["abc  ", None], "{abc,NULL}"),
    ("char(3)[][]", [["a  ", "b"]], "{{a  ,b  }}"),
    ("macaddr", "08-00-2B-01-02-03", "08:00:2b:01:02:03"),
    ("macaddr[]", ["0800.2b01.0203"], "{08:00:2b:01:02:03}"),
    ("macaddr8", "08002b010203", "08:00:2b:ff:fe:01:02:03"),
    ("inet", parse_inet("10.0.0.7/32"), "10.0.0.7"),
    ("cidr[]", [parse_cidr("10.1"), None], "{10.1.0.0/16,NULL}"),
    ("bit(8)", "x1F", "00011111"),
    ("varbit(3)[]", ["b10", None], "{10,NULL}"),
    ("numeric(50,3)", "1.2345", "1.235"),
    ("numeric(50,3)[]", ["1", "2.0005"], "{1.000,2.001}"),
    ("name", "n" * 70, "n" * 63),
]
REFUSED: list[tuple[str, Any, Any, str]] = [
    ("varchar(3)[]", ["abc"], ["abc", "abcd"], "22001"),
    ("json[]", ["{}"], ["[1]", "{"], "22P02"),
    ("macaddr", "08:00:2b:01:02:03", "08:00", "22P02"),
    ("inet", parse_inet("::1"), b"\x06\0", "22P02"),
    ("cidr[]", [parse_cidr("::/0")], [parse_cidr("::/0"), parse_inet("10.0.0.1/8")], "22P02"),
    ("bit(3)", "101", "10", "22026"),
    ("varbit(3)[]", ["101"], ["1011"], "22001"),
    ("varbit", "1", "2", "22P02"),
    ("oid", 7, 2**32, "22003"),
    ("oid[]", [7], [1, -1], "22003"),
]


@pytest.mark.parametrize(("type_", "given", "kept"), KEPT)
def test_a_value_has_its_types_form(db: Db, type_: str, given: object, kept: str) -> None:
    db(f"CREATE TABLE t (id int PRIMARY KEY, v {type_})")
    db.publish("one", "t", "append", db.batch("t", "append", id=[1, 2], v=[None, given]))
    db(f"CREATE TABLE by_sql (v {type_})", f"INSERT INTO by_sql VALUES ('{kept}')")
    assert db("SELECT v::text FROM t WHERE id = 2") == db("SELECT v::text FROM by_sql")


@pytest.mark.parametrize(("type_", "good", "bad", "sqlstate"), REFUSED)
def test_the_row_of_a_value_that_is_none_is_named(
    db: Db, type_: str, good: object, bad: object, sqlstate: str
) -> None:
    db(f"CREATE TABLE t (id int PRIMARY KEY, v {type_})")
    with pytest.raises(SqlError) as caught:
        db.publish("no", "t", "append", db.batch("t", "append", id=[1, 2, 3], v=[good, None, bad]))
    assert (caught.value.sqlstate, caught.value.fields["row"]) == (sqlstate, "3")
    assert db("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.timeout(60)
def test_rows_with_nan_in_arrays_are_found_again(tmp_path: Any) -> None:
    """A statement that reads its rows by the columnar engine looks whether they are the same still."""
    with herdpy.connect(tmp_path / "db", autocommit=True) as connection:
        for table in ("a", "b"):
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v real[], w float8[][])")
            connection.execute(
                f"INSERT INTO {table} VALUES (1, '{{1,NaN}}', '{{{{NaN}},{{2}}}}'), (2, NULL, NULL)"
            )
        connection.execute("DELETE FROM a WHERE id IN (SELECT id FROM b WHERE id = 1)")
        assert connection.execute("SELECT id FROM a").fetchall() == [(2,)]
