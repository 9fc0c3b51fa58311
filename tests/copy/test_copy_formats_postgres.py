"""COPY's text, csv and binary data, good and broken, against PostgreSQL's COPY."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from herdpy_server.copy import textual
from herdpy_sql import types as t
from tests.copy.conftest import Peer, load, target_of

STRINGS = [("a", t.TEXT), ("b", t.TEXT), ("c", t.TEXT)]

TEXT_OPTIONS = [
    "",
    "(DELIMITER '|')",
    "(NULL 'nil')",
    "(DELIMITER ',', NULL '')",
    "(HEADER)",
    "DELIMITER ';'",
]
CSV_OPTIONS = [
    "(FORMAT csv)", "(FORMAT csv, HEADER)", "(FORMAT csv, DELIMITER ';')", "(FORMAT csv, NULL 'NULL')",
    "(FORMAT csv, QUOTE '''')", "(FORMAT csv, ESCAPE '\\')", "(FORMAT csv, FORCE_NULL (a))",
    "(FORMAT csv, FORCE_NOT_NULL (b))", "(FORMAT csv, HEADER match)", "CSV QUOTE AS '!' ESCAPE '@'",
]  # fmt: skip

_pieces = st.lists(
    st.sampled_from(["a", "b", "é", "日", " ", ",", ";", "|", "\t", '"', '""', "'", "!", "@", "\\", "\\\\",
                     "\\N", "\\n", "\\.", "\\x41", "\\101", "\\xff", "NULL", "nil", "\n", "\n",
                     "\r\n", "\r"]),
    max_size=4,
).map("".join)  # fmt: skip


@st.composite
def hostile(draw: st.DrawFn, delimiters: str) -> bytes:
    """Lines of three fields or so, of what is special somewhere."""
    ending = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"]))
    delimiter = draw(st.sampled_from(delimiters))
    lines = draw(
        st.lists(
            st.lists(_pieces, min_size=3, max_size=3) | st.lists(_pieces, min_size=2, max_size=4), max_size=4
        )
    )
    quote = draw(st.sampled_from(['"', '"', "'", "!", ""]))
    made = []
    for fields in lines:
        quoted = [quote + field + quote if draw(st.booleans()) else field for field in fields]
        made.append(delimiter.join(quoted))
    text = ending.join(made) + draw(st.sampled_from([ending, "", ending + "\\." + ending]))
    return text.encode()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """``data`` in pieces cut at these places."""
    edges = [0, *sorted({place % (len(data) + 1) for place in at}), len(data)]
    return [data[low:high] for low, high in itertools.pairwise(edges)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick way is taken for every line, and pieces are not gathered first."""
    monkeypatch.setattr("herdpy_server.copy.textual._LEAST_BYTES", 1)
    monkeypatch.setattr(textual, "GATHERED_BYTES", 1)


def same(peer: Peer, options: str, data: bytes, places: list[int]) -> None:
    peer.make("tc", STRINGS)
    theirs = peer.load("tc", options, data)
    found = load(target_of("tc", STRINGS, "FROM STDIN", options), cut(data, places))
    assert found == theirs, data


_places = st.lists(st.integers(0, 200), max_size=4)


@pytest.mark.parametrize("options", TEXT_OPTIONS)
@settings(max_examples=40)
@given(data=hostile("\t\t,|;"), places=_places)
@example(data=b"\t\t\\", places=[])
def test_text_is_read_as_postgresql_does(
    copy_peer: Peer, options: str, data: bytes, places: list[int]
) -> None:
    same(copy_peer, options, data, places)


@pytest.mark.parametrize(
    "data",
    [
        b"\\.", b"\\.\n", b"\t\t\\.", b"\t\t\\.\n", b"\t\t\\.\r\n", b"\t\t\\.\r",
        b"a\tb\tc\n\\.", b"a\tb\tc\\.\nx\ty\tz\n",
        b"a\tb\tc\r\n\\.", b"a\tb\tc\r\n\\.\r", b"a\tb\tc\r\n\t\t\\.\r\n",
        b"a\tb\tc\r\\.", b"a\tb\\.\tc\n", b"\t\t\\.\\.",
    ],
)  # fmt: skip
def test_the_end_of_data_is_where_postgresql_sees_it(copy_peer: Peer, data: bytes) -> None:
    same(copy_peer, "", data, [])


@pytest.mark.parametrize("options", CSV_OPTIONS)
@settings(max_examples=40)
@given(data=hostile(",,;"), places=_places)
@example(data=b',"\r\n",\n\\.\r\n\n', places=[])
def test_csv_is_read_as_postgresql_does(
    copy_peer: Peer, options: str, data: bytes, places: list[int]
) -> None:
    same(copy_peer, options, data, places)
