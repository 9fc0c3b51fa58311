"""Golden outputs of every format, and errors with their caret."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from collections.abc import Sequence
from decimal import Decimal

import pytest

from herdpy.cli.errors import CliError, point_at, render
from herdpy.cli.output import Format, shortest_real, write_result


class Rows:
    """A cursor that has rows."""

    def __init__(self, columns: Sequence[tuple[str, int]], rows: list[tuple[object, ...]]) -> None:
        self.description = [(name, oid, None, None, None, None, None) for name, oid in columns]
        self._rows = rows

    def fetchmany(self, size: int) -> list[tuple[object, ...]]:
        part, self._rows = self._rows[:size], self._rows[size:]
        return part


def every_type() -> Rows:
    columns = [
        *(("b", 16), ("i", 23), ("r", 700), ("d", 701), ("n", 1700), ("t", 25), ("y", 17)),
        *(("date", 1082), ("time", 1083), ("ts", 1114), ("tz", 1184), ("u", 2950), ("j", 114)),
    ]
    moment = dt.datetime(2024, 2, 29, 12, 30, 0, 5)
    row = (
        *(True, -7, 0.10000000149011612, 1e20, Decimal("1E+3"), 'a,"b"\nc', b"\x00\xff"),
        *(
            moment.date(),
            moment.time(),
            moment,
            moment.replace(tzinfo=dt.UTC),
            uuid.UUID(int=1),
            {"a": [1, None]},
        ),
    )
    empty = (None,) * 5 + ("",) + (None,) * 7
    return Rows(columns, [row, empty])


GOLDEN = {
    Format.CSV: """\
b,i,r,d,n,t,y,date,time,ts,tz,u,j
true,-7,0.1,1e+20,1000,"a,""b""
c",\\x00ff,2024-02-29,12:30:00.000005,2024-02-29 12:30:00.000005,2024-02-29 12:30:00.000005+00,\
00000000-0000-0000-0000-000000000001,"{""a"": [1, null]}"
,,,,,"",,,,,,,
""",
    Format.JSONL: """\
{"b": true, "i": -7, "r": 0.1, "d": 1e+20, "n": 1000, "t": "a,\\"b\\"\\nc", "y": "\\\\x00ff", \
"date": "2024-02-29", "time": "12:30:00.000005", "ts": "2024-02-29 12:30:00.000005", \
"tz": "2024-02-29 12:30:00.000005+00", "u": "00000000-0000-0000-0000-000000000001", "j": {"a": [1, null]}}
{"b": null, "i": null, "r": null, "d": null, "n": null, "t": "", "y": null, "date": null, "time": null, \
"ts": null, "tz": null, "u": null, "j": null}
""",
}


@pytest.mark.parametrize("format", GOLDEN)
def test_text_formats(format: Format) -> None:
    out = io.StringIO()
    assert write_result(every_type(), format, out) == 2
    assert out.getvalue() == GOLDEN[format]


def test_json_is_one_array_of_the_same_objects() -> None:
    out = io.StringIO()
    write_result(every_type(), Format.JSON, out)
    lines = [json.loads(line) for line in GOLDEN[Format.JSONL].splitlines()]
    assert json.loads(out.getvalue()) == lines
    out = io.StringIO()
    write_result(Rows([("a", 23)], []), Format.JSON, out)
    assert out.getvalue() == "[]\n"


def test_table() -> None:
    out = io.StringIO()
    rows = Rows([("id", 23), ("name", 25)], [(1, "Ada"), (20, "日本"), (None, "a\tb\x1b[0m")])
    write_result(rows, Format.TABLE, out)
    assert out.getvalue() == (
        "┌──────┬───────────────┐\n"
        "│   id │ name          │\n"
        "├──────┼───────────────┤\n"
        "│    1 │ Ada           │\n"
        "│   20 │ 日本          │\n"
        "│ NULL │ a\\x09b\\x1b[0m │\n"
        "└──────┴───────────────┘\n"
    )


def test_wide_values_are_whole_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    write_result(Rows([("t", 25)], [("x" * 5000,)]), Format.TABLE, out)
    assert "x" * 5000 in out.getvalue()


def test_expanded_table_has_a_line_a_column() -> None:
    out = io.StringIO()
    write_result(Rows([("id", 23), ("name", 25)], [(1, None)]), Format.TABLE, out, expanded=True)
    assert [line.split() for line in out.getvalue().splitlines() if line.strip()] == [
        ["row", "1"],
        ["id", "1"],
        ["name", "NULL"],
    ]


def test_limit_shows_some_and_counts_all() -> None:
    out = io.StringIO()
    rows = Rows([("i", 23)], [(n,) for n in range(7)])
    assert write_result(rows, Format.TABLE, out, limit=3) == 7
    assert "│ 2 │" in out.getvalue()
    assert "│ 3 │" not in out.getvalue()


@pytest.mark.parametrize("text", ["0.1", "3.4028235e+38", "1e-45", "16777216", "0.3333333432674408"])
def test_reals_have_the_digits_they_need(text: str) -> None:
    import struct

    value = struct.unpack("f", struct.pack("f", float(text)))[0]
    again = struct.unpack("f", struct.pack("f", float(shortest_real(value))))[0]
    assert again == value
    assert len(shortest_real(value)) <= len(repr(value))


class FailureError(Exception):
    sqlstate = "42703"
    message = 'column "nmae" does not exist'
    detail = "There is name."
    hint = "Perhaps name?"
    position = 25
    outcome = "not done"


def test_errors_show_state_caret_detail_and_hint() -> None:
    statement = "SELECT id,\n\tid * 2,\n    nmae\nFROM t"
    assert statement[24:28] == "nmae"
    assert render(FailureError(), statement, "load.sql:7") == (
        'load.sql:7: ERROR:  42703: column "nmae" does not exist\n'
        "LINE 3:     nmae\n"
        "            ^\n"
        "DETAIL:  There is name.\n"
        "HINT:  Perhaps name?"
    )


def test_caret_stands_under_wide_characters_and_long_lines() -> None:
    assert point_at("SELECT '日本', x", 14) == "LINE 1: SELECT '日本', x\n                       ^"
    shown = point_at("SELECT " + "a, " * 200 + "b", 608)
    assert shown is not None
    line, caret = shown.splitlines()
    assert line[len(caret) - 1] == "b"
    assert len(line) < 200
    assert point_at("SELECT 1", 99) is None


def test_unknown_outcome_is_told() -> None:
    error = FailureError()
    error.outcome = "unknown"
    assert "not known whether this took effect" in render(error)
    assert render(CliError("no", hint="yes")) == "error: no\nHINT:  yes"
