"""Values of every type through COPY: PostgreSQL's files read, and files written as PostgreSQL writes them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from herdpy.codec.arrow import datums_to_array
from herdpy_server.wire import decoder, encoder
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from tests.copy.conftest import Peer, dump, load, read, target_of
from tests.wire_formats.wire_values import texts

COLUMNS = [
    ("k", t.INTEGER), ("s", t.TEXT), ("n", SqlType(Base.NUMERIC, precision=12, scale=3)), ("m", t.NUMERIC),
    ("q", SqlType(Base.NUMERIC, precision=30, scale=12)), ("d", t.DATE), ("ts", t.TIMESTAMP),
    ("tz", t.TIMESTAMPTZ), ("ti", t.TIME), ("o", t.BOOLEAN), ("f", t.DOUBLE), ("r", t.REAL), ("u", t.UUID),
    ("y", t.BYTEA), ("j", t.JSON), ("h", SqlType(Base.CHAR, length=5)),
    ("v", SqlType(Base.VARCHAR, length=4)), ("w", t.SMALLINT), ("x", t.BIGINT),
]  # fmt: skip
OPTIONS = [
    "", "(FORMAT csv)", "(FORMAT binary)", "(FORMAT csv, HEADER, FORCE_QUOTE *)", "(DELIMITER '-', NULL 'n')",
    "(FORMAT csv, DELIMITER ' ', NULL 't')", "(FORMAT csv, QUOTE '\\', ESCAPE '1')", "(HEADER)",
    "(FORMAT csv, FORCE_QUOTE (k, s), ESCAPE '\\')",
]  # fmt: skip


@st.composite
def rows_of(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Datums of all columns; what the input functions refuse is NULL."""
    rows = []
    for _ in range(draw(st.integers(0, 3))):
        row = []
        for _, sql_type in COLUMNS:
            datum = None
            if draw(st.integers(0, 4)):
                try:
                    datum = decoder(sql_type, False)(draw(texts(sql_type)))
                except SqlError:
                    datum = None
            row.append(datum)
        rows.append(tuple(row))
    return rows


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    target = target_of("tt", COLUMNS, "TO STDOUT", "")
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    arrays = [
        datums_to_array(sql_type.field, list(column), sql_type.precision)
        for (_, sql_type), column in zip(COLUMNS, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target.schema)


def fill(peer: Peer, rows: list[tuple[Any, ...]]) -> None:
    peer.make("tt", COLUMNS)
    marks = ", ".join(f"%s::{sql_type}" for _, sql_type in COLUMNS)
    for row in rows:
        values = [
            None if datum is None else encoder(sql_type, False)(datum).decode()
            for datum, (_, sql_type) in zip(row, COLUMNS, strict=True)
        ]
        peer.conn.execute(f"INSERT INTO tt VALUES ({marks})", values)


@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=10)
@given(rows=rows_of())
@example(rows=[(1, "long" * 200, *[None] * 6, 71_186_639_200, *[None] * 10)] * 2)
def test_files_are_postgresql_s(copy_peer: Peer, options: str, rows: list[tuple[Any, ...]]) -> None:
    fill(copy_peer, rows)
    theirs = copy_peer.dump("tt", options)
    batch = batch_of(rows)
    assert dump(target_of("tt", COLUMNS, "TO STDOUT", options), [batch]) == theirs
    assert isinstance(theirs, bytes)
    reading = options.replace(", FORCE_QUOTE *", "").replace("FORCE_QUOTE (k, s), ", "")
    found = read(target_of("tt", COLUMNS, "FROM STDIN", reading), [theirs])
    assert dump(target_of("tt", COLUMNS, "TO STDOUT", options), found or [batch]) == theirs
    assert sum(one.num_rows for one in found) == len(rows)


@pytest.mark.parametrize(("name", "sql_type"), COLUMNS)
@pytest.mark.parametrize("form", ["text", "csv"])
@settings(max_examples=10)
@given(data=st.data())
def test_values_are_read_as_postgresql_does(
    copy_peer: Peer, form: str, name: str, sql_type: SqlType, data: st.DataObject
) -> None:
    values = data.draw(st.lists(texts(sql_type), min_size=1, max_size=4))
    values = [value for value in values if not set(value) & set(b'\n\r\\"\t,\0') and value.isascii()]
    columns = [("k", t.INTEGER), (name + "_", sql_type)]
    table = f"tv_{name}"
    copy_peer.make(table, columns)
    lines = b"".join(b"%d%s%s\n" % (i, b"\t" if form == "text" else b",", v) for i, v in enumerate(values))
    options = f"(FORMAT {form})"
    theirs = copy_peer.load(table, options, lines)
    found = load(target_of(table, columns, "FROM STDIN", options), [lines])
    if isinstance(found, tuple):
        if isinstance(theirs, list) or found[0] != theirs[0]:
            assert _is_known(sql_type, found[0], lines), (found, theirs)
            return
        if not _is_known(sql_type, found[0], lines):
            assert theirs[2] is not None
            assert found[2] == theirs[2].split("\n")[-1]  # of JSON, another line tells where in it
    else:
        assert found == theirs


def _is_known(sql_type: SqlType, sqlstate: str, lines: bytes) -> bool:
    """What HerdPy is known to refuse: NaN in NUMERIC, timestamps past the year 294247; and twice wrong."""
    if sql_type.base is Base.NUMERIC:
        return sqlstate == "0A000" and any(word in lines.lower() for word in (b"nan", b"inf"))
    if sql_type.base in {Base.TIMESTAMP, Base.TIMESTAMPTZ}:
        return sqlstate == "22008" and b"2942" in lines
    return sql_type.base in {Base.REAL, Base.DOUBLE} and sqlstate in {"22P02", "22003"}


@pytest.mark.parametrize("options", ["", "(FORMAT csv)", "(FORMAT csv, DELIMITER '|')", "(DELIMITER ',')"])
def test_many_rows_come_back(copy_peer: Peer, options: str) -> None:
    """So many that most go the quick way, with values among them that only the slow one reads."""
    chosen = random.Random(7)
    columns = [("k", t.INTEGER), ("s", t.TEXT), ("ts", t.TIMESTAMP), ("b", t.BOOLEAN), ("u", t.UUID)]
    copy_peer.make("tm", columns)
    words = ["plain", "", None, "a,b", "a|b", 'q"q', "tab\tbed", "back\\slash", "line\nbreak", "\\.", "é日"]
    rows = [
        (i, chosen.choice(words), f"20{chosen.randrange(10, 99)}-01-02 03:04:05", chosen.random() < 0.5)
        for i in range(20_000)
    ]
    with copy_peer.conn.cursor().copy("COPY tm (k, s, ts, b) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    copy_peer.conn.execute("UPDATE tm SET u = md5(k::text)::uuid WHERE k % 7 <> 0")
    theirs = copy_peer.dump("(SELECT * FROM tm ORDER BY k)", options)
    assert isinstance(theirs, bytes)
    pieces = [theirs[at : at + 8191] for at in range(0, len(theirs), 8191)]
    batches = read(target_of("tm", columns, "FROM STDIN", options), pieces)
    assert sum(batch.num_rows for batch in batches) == len(rows)
    assert dump(target_of("tm", columns, "TO STDOUT", options), batches) == theirs
