"""Stored metadata: known answers of BookKeeper 4.17.3, round trips, and what strangers may have stored."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.bookkeeper.digest import DigestType
from herdpy.bookkeeper.errors import MetadataError
from herdpy.bookkeeper.metadata.ledger_metadata import (
    MAX_METADATA_BYTES,
    LedgerMetadata,
    LedgerState,
    Segment,
    decode_metadata,
    encode_metadata,
)
from herdpy.bookkeeper.wire.proto.data_formats_pb2 import LedgerMetadataFormat

HEADER = b"BookieMetadataFormatVersion\t"
PASSWORD = 's\u00e9cret\n"\\'.encode()

# What the Java client stored for an open ledger (E3 W3 A2, CRC32C, password "pw") and after closing it.
LIVE_OPEN = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a6408031003180020ffffffffffffffffff0128013235"
    "0a0f3132372e302e302e313a33343334350a0f3132372e302e302e313a33363733330a0f3132372e302e302e313a343135343310"
    "0038034202707748025a060a016b120176609ac9e081e3c19cba38"
)
LIVE_CLOSED = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a5308031003180b2001280332350a0f3132372e302e30"
    "2e313a33343334350a0f3132372e302e302e313a33363733330a0f3132372e302e302e313a343135343310003803420270774802"
    "5a060a016b1201766000"
)
# What LedgerMetadataSerDe made of one ledger in its three formats.
JAVA_V1 = (
    HEADER
    + b"1\n2\n3\n567890\n0\t10.0.0.1:3181\tb-2\tb_3.example:3181\n1000\t10.0.0.1:3181\tb-2\tb-4\n1234\tCLOSED"
)
JAVA_V1_OPEN = JAVA_V1.replace(b"567890", b"0").removesuffix(b"1234\tCLOSED")
JAVA_V1_IN_RECOVERY = JAVA_V1_OPEN + b"-102\tCLOSED"
JAVA_V2 = (
    HEADER
    + b"""2
quorumSize: 2
ensembleSize: 3
length: 567890
lastEntryId: 1234
state: CLOSED
segment {
  ensembleMember: "10.0.0.1:3181"
  ensembleMember: "b-2"
  ensembleMember: "b_3.example:3181"
  firstEntryId: 0
}
segment {
  ensembleMember: "10.0.0.1:3181"
  ensembleMember: "b-2"
  ensembleMember: "b-4"
  firstEntryId: 1000
}
digestType: HMAC
password: "s\\303\\251cret\\n\\"\\\\"
ackQuorumSize: 1
ctime: 1700000000123
customMetadata {
  key: "app"
  value: "\\000\\377\\n"
}
"""
)
JAVA_V3 = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a82010802100318d2d42220d209280332280a0d31302e"
    "302e302e313a333138310a03622d320a10625f332e6578616d706c653a333138311000321c0a0d31302e302e302e313a33313831"
    "0a03622d320a03622d3410e8073802420a73c3a9637265740a225c480150fbd095ffbc315a0a0a03617070120300ff0a60818080"
    "808080808040"
)
JAVA_V3_IN_RECOVERY = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a880108021003180020ffffffffffffffffff01280232"
    "280a0d31302e302e302e313a333138310a03622d320a10625f332e6578616d706c653a333138311000321c0a0d31302e302e302e"
    "313a333138310a03622d320a03622d3410e8073802420a73c3a9637265740a225c480150fbd095ffbc315a0a0a03617070120300"
    "ff0a60818080808080808040"
)
SEGMENTS = (
    Segment(0, ("10.0.0.1:3181", "b-2", "b_3.example:3181")),
    Segment(1000, ("10.0.0.1:3181", "b-2", "b-4")),
)
CLOSED = LedgerMetadata(
    ensemble_size=3,
    write_quorum=2,
    ack_quorum=1,
    segments=SEGMENTS,
    state=LedgerState.CLOSED,
    digest=DigestType.HMAC,
    password=PASSWORD,
    custom_metadata={"app": b"\x00\xff\n"},
    last_entry_id=1234,
    length_bytes=567890,
    ctime_ms=1700000000123,
    c_token=2**62 + 1,
)


def test_format_3_is_the_java_clients_byte_for_byte() -> None:
    assert decode_metadata(JAVA_V3, 5) == CLOSED
    assert encode_metadata(CLOSED) == JAVA_V3
    recovering = dataclasses.replace(CLOSED, state=LedgerState.IN_RECOVERY, last_entry_id=-1, length_bytes=0)
    assert decode_metadata(JAVA_V3_IN_RECOVERY, 5) == recovering
    assert encode_metadata(recovering) == JAVA_V3_IN_RECOVERY


def test_a_live_ledger_of_the_java_client_is_read_and_written_alike() -> None:
    ctime_ms = 1795276608985
    ledger = decode_metadata(LIVE_OPEN, ctime_ms)
    assert ledger == LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        segments=(Segment(0, ("127.0.0.1:34345", "127.0.0.1:36733", "127.0.0.1:41543")),),
        digest=DigestType.CRC32C,
        password=b"pw",
        custom_metadata={"k": b"v"},
        ctime_ms=ctime_ms,
        stores_ctime=False,
        c_token=4068001768686494874,
    )
    assert encode_metadata(ledger) == LIVE_OPEN  # the znode's creation time did not creep in
    # Java drops the creator's token when it closes the ledger.
    closed = dataclasses.replace(ledger.closed(1, len(b"helloworld!")), c_token=0)
    assert decode_metadata(LIVE_CLOSED, ctime_ms) == closed
    assert encode_metadata(closed) == LIVE_CLOSED


def test_format_2_is_read() -> None:
    assert decode_metadata(JAVA_V2, 5) == dataclasses.replace(CLOSED, c_token=None, format_version=2)


def test_format_1_is_read_in_every_state() -> None:
    closed = dataclasses.replace(
        CLOSED,
        ack_quorum=2,  # not stored then
        digest=DigestType.CRC32,
        password=b"",
        has_password=False,
        custom_metadata={},
        ctime_ms=5,
        stores_ctime=False,
        c_token=None,
        format_version=1,
    )
    assert decode_metadata(JAVA_V1, 5) == closed
    still_open = dataclasses.replace(closed, state=LedgerState.OPEN, last_entry_id=-1, length_bytes=0)
    assert decode_metadata(JAVA_V1_OPEN, 5) == still_open
    assert decode_metadata(JAVA_V1_IN_RECOVERY, 5) == dataclasses.replace(
        still_open, state=LedgerState.IN_RECOVERY
    )


def test_an_old_ledger_is_written_back_in_format_3_without_inventing_a_password() -> None:
    old = decode_metadata(JAVA_V1_OPEN, 5)
    new = decode_metadata(encode_metadata(old), 6)
    assert new == dataclasses.replace(old, format_version=3, ctime_ms=6)
    assert not new.has_password


def test_a_missing_ack_quorum_is_the_write_quorum() -> None:
    message = LedgerMetadataFormat(quorumSize=2, ensembleSize=2, length=0, state=LedgerMetadataFormat.OPEN)
    message.segment.add(firstEntryId=0, ensembleMember=["a:1", "b:1"])
    ledger = decode_metadata(framed(message.SerializeToString()))
    assert (ledger.ack_quorum, ledger.has_password, ledger.ctime_ms) == (2, False, None)


@pytest.mark.parametrize("version", [b"0", b"4", b"17", b"4294967299"])
def test_an_unknown_format_version_is_named(version: bytes) -> None:
    with pytest.raises(MetadataError, match=f"version {version.decode()}; known: 1, 2, 3"):
        decode_metadata(HEADER + version + b"\n" + LIVE_OPEN)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "format version"),
        (b"BookieMetadataFormatVersion 3\n", "format version"),
        (HEADER + b"3", "garbled format version"),
        (HEADER + b"-3\n", "garbled format version"),
        (HEADER + b"99999999999\n", "garbled format version"),
        (LIVE_OPEN[:-1], "says it has"),
        (LIVE_OPEN + b"\0", "says it has"),
        (HEADER + b"3\n\xff\xff\xff\xff\xff", "length"),
        (HEADER + b"3\n\x00", "garbled|lacks"),
        (LIVE_OPEN.replace(b"\x28\x01\x32\x35", b"\x28\x07\x32\x35"), "garbled|lacks"),  # state 7
        (LIVE_OPEN.replace(b"\x38\x03\x42", b"\x38\x09\x42"), "digest type"),  # digest type 9
        (LIVE_OPEN.replace(b"\x08\x03\x10\x03", b"\x08\x03\x10\x04"), "ensemble size is 4"),
        (LIVE_OPEN.replace(b"\x48\x02", b"\x48\x04"), "quorums"),
        (LIVE_OPEN.replace(b"127.0.0.1:34345", b"127.0.0.1/34345"), "not a bookie id"),
        (LIVE_OPEN.replace(b"127.0.0.1:34345", b"127.0.0.1:3434\xff"), "where text belongs"),
        (LIVE_OPEN.replace(b"\n\x01k", b"\n\x01\xff"), "where text belongs"),
        (JAVA_V2.replace(b"quorumSize: 2", b"quorumSize: two"), "line 1"),
        (JAVA_V2.replace(b"quorumSize: 2\n", b""), "lacks"),
        (JAVA_V2.replace(b"\xc3", b"\xff") + b"\xff", "text"),
        (JAVA_V1.replace(b"1234\t", b"12 34\t"), "where a number belongs"),
        (JAVA_V1.replace(b"1000\t", b"0\t"), "follows one at 0"),
        (JAVA_V1 + b"\n1\ta\tb\tc", "goes on after its end"),
        (HEADER + b"1\n2\n3\n", "before its first segment"),
        (HEADER + b"1\n2\n999999999999\n0\n0\ta\n", "quorums"),
    ],
)
def test_garbled_metadata_says_what_is_wrong(data: bytes, said: str) -> None:
    with pytest.raises(MetadataError, match=said):
        decode_metadata(data, 5)


def test_the_password_is_neither_shown_nor_told_in_errors() -> None:
    assert "cret" not in repr(CLOSED)
    with pytest.raises(MetadataError) as refused:
        decode_metadata(JAVA_V2.replace(b'password: "', b'password: x"'))
    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_more_than_the_limit_is_not_parsed() -> None:
    with pytest.raises(MetadataError, match="at most"):
        decode_metadata(HEADER + b"3\n" + bytes(MAX_METADATA_BYTES))


def framed(body: bytes) -> bytes:
    assert len(body) < 128
    return HEADER + b"3\n" + bytes([len(body)]) + body


def or_metadata_error(data: bytes) -> None:
    try:
        ledger = decode_metadata(data, 5)
    except MetadataError:
        return
    assert decode_metadata(encode_metadata(ledger), 5).segments == ledger.segments


@given(st.sampled_from([1, 2, 3]), st.binary(max_size=200))
def test_garbage_is_metadata_or_a_metadata_error(version: int, body: bytes) -> None:
    or_metadata_error(HEADER + b"%d\n" % version + body)
    or_metadata_error(framed(body[:127]))


@given(st.sampled_from([LIVE_OPEN, LIVE_CLOSED, JAVA_V1, JAVA_V2, JAVA_V3]), st.data())
def test_damaged_metadata_is_metadata_or_a_metadata_error(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole)))
    removed = data.draw(st.integers(0, 8))
    or_metadata_error(whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + removed :])


@given(st.text(alphabet=" \n\t:{}<>[]\"'\\#-0123456789.exinfatrueqosmSDKLOPN/", max_size=80))
def test_text_garbage_is_metadata_or_a_metadata_error(text: str) -> None:
    or_metadata_error(HEADER + b"2\n" + text.encode())
    or_metadata_error(HEADER + b"1\n" + text.encode())


IDS = st.from_regex(r"[0-9A-Za-z:._-]{1,20}", fullmatch=True).filter(lambda text: text.lower() != "readonly")


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    ensemble_size = draw(st.integers(1, 5))
    write_quorum = draw(st.integers(1, ensemble_size))
    members = st.lists(IDS, min_size=ensemble_size, max_size=ensemble_size).map(tuple)
    later = sorted(draw(st.sets(st.integers(1, 2**63 - 1), max_size=3)))
    state = draw(st.sampled_from(LedgerState))
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ensemble_size,
        write_quorum,
        draw(st.integers(1, write_quorum)),
        tuple(Segment(first, draw(members)) for first in [0, *later]),
        state,
        draw(st.sampled_from(DigestType)),
        draw(st.binary(max_size=20)),
        draw(st.dictionaries(st.text(max_size=5), st.binary(max_size=5), max_size=3)),
        draw(st.integers(-1, 2**63 - 1)) if closed else -1,
        draw(st.integers(0, 2**63 - 1)) if closed else 0,
        draw(st.integers(-(2**63), 2**63 - 1)),
        draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
    )


@given(ledgers())
def test_what_is_written_is_read_back(ledger: LedgerMetadata) -> None:
    assert decode_metadata(encode_metadata(ledger), 7) == ledger


def test_what_does_not_fit_the_format_is_refused() -> None:
    with pytest.raises(MetadataError, match="cannot be stored"):
        encode_metadata(dataclasses.replace(CLOSED, c_token=2**63))
    with pytest.raises(MetadataError, match="cannot be stored"):
        encode_metadata(dataclasses.replace(CLOSED, custom_metadata={"\ud800": b""}))
