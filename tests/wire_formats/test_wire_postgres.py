"""Every type's text and binary form, read and written, against PostgreSQL's own functions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy_sql import types as t
from herdpy_sql.types import Base, SqlType
from tests.wire_formats.conftest import Answer, Ours, Peer
from tests.wire_formats.wire_values import NUMERIC_10_2, TYPES, binaries, texts

ZONES = ["America/New_York", "Asia/Kolkata", "Europe/Paris", "Pacific/Apia", "Africa/Monrovia"]
EXACT_MESSAGES = {
    Base.BOOLEAN, Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.UUID, Base.TEXT,
    Base.VARCHAR, Base.CHAR,
}  # fmt: skip


def same(peer: Peer, ours: Ours, sql_type: SqlType, data: bytes, binary: bool) -> None:
    theirs = peer.ask(sql_type, data, binary)
    found = ours.ask(sql_type, data, binary)
    if sql_type.base is Base.NUMERIC and _is_special(theirs, data, binary):
        assert found == ("error", "0A000")  # NaN and infinity: HerdPy's NUMERIC is finite
        return
    if sql_type.base in {Base.TIMESTAMP, Base.TIMESTAMPTZ}:
        if theirs[0] == "ok" and _is_beyond(theirs[1]):
            assert found == ("error", "22008")
            return
        if binary and len(data) > 8 and found == ("error", "22008"):  # beyond, and too long too
            assert theirs[0] == "error"
            return
    if sql_type.base in {Base.REAL, Base.DOUBLE} and found[0] == theirs[0] == "error":
        assert {found[1], theirs[1]} <= {"22P02", "22003", "22021", "22P03", "08P01"}  # twice wrong: either
        return
    assert found == theirs, (data, ours.message, peer.message)
    if found[0] == "error" and sql_type.base in EXACT_MESSAGES:
        assert ours.message == peer.message.removesuffix(" in bind parameter 1")


def _is_beyond(text: bytes) -> bool:
    """Whether a timestamp is past what HerdPy's 64 bits hold, 294247-01-10 04:00:54.775806."""
    return len(text) > 20 and text[:6].isdigit() and text >= b"294247-01-10 04:00:54.775807"


def _is_special(theirs: Answer, data: bytes, binary: bool) -> bool:
    if binary:
        return theirs[0] == "ok" and theirs[1] in {b"NaN", b"Infinity", b"-Infinity"}
    return any(word in data.lower() for word in (b"nan", b"inf")) and theirs[0] == "ok"


@pytest.mark.parametrize("sql_type", TYPES, ids=str)
@settings(max_examples=200)
@given(data=st.data())
def test_text_is_read_as_postgresql_does(peer: Peer, sql_type: SqlType, data: st.DataObject) -> None:
    same(peer, Ours(), sql_type, data.draw(texts(sql_type)), binary=False)


@pytest.mark.parametrize("sql_type", TYPES, ids=str)
@settings(max_examples=200)
@given(data=st.data())
def test_binary_is_read_as_postgresql_does(peer: Peer, sql_type: SqlType, data: st.DataObject) -> None:
    same(peer, Ours(), sql_type, data.draw(binaries(sql_type)), binary=True)


@pytest.mark.parametrize("scale", range(10))
@pytest.mark.parametrize("sign", [0, 0x4000])
@pytest.mark.parametrize("sql_type", [t.NUMERIC, NUMERIC_10_2], ids=str)
def test_binary_digits_beyond_the_scale_are_cut(peer: Peer, sql_type: SqlType, sign: int, scale: int) -> None:
    same(peer, Ours(), sql_type, struct.pack("!HhHH3H", 3, 0, sign, scale, 1, 5678, 9876), binary=True)
    same(peer, Ours(), sql_type, struct.pack("!HhHH2H", 2, -1, sign, scale, 9999, 9999), binary=True)


@pytest.mark.parametrize("zone", ZONES)
@settings(max_examples=100)
@given(data=st.data())
def test_a_timestamptz_is_in_the_session_s_zone(peer: Peer, zone: str, data: st.DataObject) -> None:
    peer.zone(zone)
    year, month, day = (
        data.draw(st.integers(1850, 2037)),
        data.draw(st.integers(1, 12)),
        data.draw(st.integers(1, 28)),
    )
    hour, minute = data.draw(st.integers(0, 23)), data.draw(st.integers(0, 59))
    offset = data.draw(st.sampled_from(["", "+00", "-03:30"]))
    text = f"{year}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}{offset}"
    try:
        same(peer, Ours(zone), t.TIMESTAMPTZ, text.encode(), binary=False)
    finally:
        peer.zone("UTC")
