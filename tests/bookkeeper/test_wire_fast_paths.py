"""The hand-made messages against the protobuf library: the same bytes out, the same meaning in."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire import server
from herdpy.bookkeeper.wire.entries import AddEncoder, encode_read, parse_add_reply, parse_read_reply
from herdpy.bookkeeper.wire.messages import AddReply, ReadReply, Reply, parse_reply
from herdpy.bookkeeper.wire.proto import protocol_pb2 as pb
from herdpy.bookkeeper.wire.protocol import decode, encode, encode_any, frame
from tests.bookkeeper.sealing import sealed_body

KEY = bytes(range(20))
# Around every change of the number of bytes of a varint.
EDGES = sorted({0, 1, 5, *(2**bits + by for bits in range(7, 63, 7) for by in (-1, 0, 1)), 2**63 - 1})
TXN = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1))
ID = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**63 - 1))
INT64 = st.one_of(ID, st.integers(-(2**63), -1))
DIGESTS = [Digest.of(type, b"password") for type in DigestType]


def add_request(
    txn: int, ledger: int, entry: int, body: bytes, *, recovery: bool, deferred_sync: bool
) -> bytes:
    """The same add as the protobuf library writes it."""
    header = pb.Header(version=3, operation=2, txn=txn)
    add = pb.AddRequest(ledger_id=ledger, entry_id=entry, master_key=KEY, body=body)
    if recovery:
        header.priority = 1
        add.flag = 1
    if deferred_sync:
        add.write_flags = 1
    return frame(pb.Request(header=header, add=add).SerializeToString())


def add_reply(txn: int, ledger: int, entry: int, status: int = 0, inner: int | None = None) -> bytes:
    add = pb.AddResponse(status=status if inner is None else inner, ledger_id=ledger, entry_id=entry)
    header = pb.Header(version=3, operation=2, txn=txn)
    return pb.Response(header=header, status=status, add=add).SerializeToString()


def read_reply(txn: int, body: ReadReply, status: int = 0) -> bytes:
    return server.encode_reply(Reply(txn, 1, status, body))[4:]


@given(number=st.one_of(st.sampled_from(EDGES), st.integers(-(2**63), 2**64 - 1)))
def test_varints_are_the_protobuf_library_s(number: int):
    expected = pb.Header(txn=number % 2**64).SerializePartialToString()[1:]
    assert encode(number) == encode_any(number) == expected
    if 0 <= number < 2**63:
        assert decode(encode(number)) == number


@settings(max_examples=300)
@given(
    txn=TXN,
    ledger=ID,
    entry=ID,
    lac=INT64,
    length=INT64,
    data=st.one_of(st.binary(max_size=40), st.integers(0, 20_000).map(bytes)),
    digest=st.sampled_from(DIGESTS),
    recovery=st.booleans(),
    deferred_sync=st.booleans(),
)
def test_adds_are_byte_for_byte_the_protobuf_library_s(
    txn: int,
    ledger: int,
    entry: int,
    lac: int,
    length: int,
    data: bytes,
    digest: Digest,
    recovery: bool,
    deferred_sync: bool,
):
    encoder = AddEncoder(ledger, KEY, digest, recovery=recovery, deferred_sync=deferred_sync)
    body = sealed_body(digest, ledger, entry, lac, length, data)
    expected = add_request(txn, ledger, entry, body, recovery=recovery, deferred_sync=deferred_sync)
    assert encoder.encode(txn, entry, lac, length, data) == expected
    assert encoder.encode(txn, entry, lac, length, data) == expected  # now with the shape remembered
    assert encoder.encode_body(txn, entry, body) == expected


def test_one_encoder_makes_entries_of_every_shape():
    """More shapes than are remembered, each twice, so that remembered ones are dropped and made again."""
    digest = DIGESTS[0]
    encoder = AddEncoder(123456, KEY, digest)
    for _ in range(2):
        for size in range(300):
            for txn, entry in ((size, 1), (2**21 + size, 2**14), (2**35, 2**30)):
                body = sealed_body(digest, 123456, entry, entry - 1, 99, bytes(size))
                expected = add_request(txn, 123456, entry, body, recovery=False, deferred_sync=False)
                assert encoder.encode(txn, entry, entry - 1, 99, bytes(size)) == expected


def test_a_body_too_short_to_be_sealed_is_still_framed_as_it_is():
    encoder = AddEncoder(1, KEY, DIGESTS[0])
    assert encoder.encode_body(5, 6, b"x") == add_request(5, 1, 6, b"x", recovery=False, deferred_sync=False)


def test_a_master_key_of_another_size_is_refused():
    with pytest.raises(ValueError, match="20 bytes"):
        AddEncoder(1, b"short", DIGESTS[0])


@given(txn=TXN, ledger=INT64, entry=INT64)
def test_reads_are_byte_for_byte_the_protobuf_library_s(txn: int, ledger: int, entry: int):
    header = pb.Header(version=3, operation=1, txn=txn)
    read = pb.ReadRequest(ledger_id=ledger, entry_id=entry)
    assert encode_read(txn, ledger, entry) == frame(pb.Request(header=header, read=read).SerializeToString())


@given(txn=ID, ledger=ID, entry=ID)
def test_success_takes_the_fast_way(txn: int, ledger: int, entry: int):
    assert parse_add_reply(add_reply(txn, ledger, entry)) == (txn, 0)


@given(txn=ID, ledger=ID, entry=ID, body=st.binary(), max_lac=st.none() | ID, updated=st.none() | ID)
def test_an_entry_takes_the_fast_way(
    txn: int, ledger: int, entry: int, body: bytes, max_lac: int | None, updated: int | None
):
    expected = ReadReply(0, ledger, entry, body, max_lac, updated)
    found = parse_read_reply(read_reply(txn, expected))
    assert found == Reply(txn, 1, 0, expected)


def check_agreement(data: bytes) -> None:
    """Whatever a fast parser says, protobuf says too."""
    add = parse_add_reply(data)
    read = parse_read_reply(data)
    if add is None and read is None:
        return
    reply = parse_reply(data)
    if add is not None:
        assert (reply.operation, (reply.txn, reply.status)) == (2, add)
    if read is not None:
        assert reply == read


@given(txn=TXN, ledger=INT64, entry=INT64, status=st.sampled_from([0, 1, 402, 504, 507, 2**31 - 1]))
def test_both_ways_agree_on_every_add_reply(txn: int, ledger: int, entry: int, status: int):
    data = add_reply(txn, ledger, entry, status)
    check_agreement(data)
    reply = parse_reply(data)
    assert reply == Reply(txn, 2, status, AddReply(status, ledger, entry))
    assert (parse_add_reply(data) is not None) == (
        status == 0 and max(txn, ledger, entry) < 2**63 and min(ledger, entry) >= 0
    )


def test_an_inner_refusal_is_not_taken_for_success():
    data = add_reply(5, 6, 7, status=0, inner=504)
    assert parse_add_reply(data) is None
    assert parse_reply(data).status == 504


REPLIES = [
    add_reply(300_000, 123_456, 299_000),
    add_reply(3, 1, 0),
    add_reply(2**40, 2**50, 2**62),
    read_reply(300_000, ReadReply(0, 123_456, 299_000, b"body" * 30, 299_001, 1_700_000_000_000)),
    read_reply(1, ReadReply(0, 1, 0, b"", 0)),
]


@pytest.mark.parametrize("reply", REPLIES)
def test_every_truncation_is_left_to_protobuf_and_refused_there(reply: bytes):
    for size in range(len(reply)):
        assert parse_add_reply(reply[:size]) is None
        assert parse_read_reply(reply[:size]) is None
        with pytest.raises(ProtocolError):
            parse_reply(reply[:size])


@pytest.mark.parametrize("reply", REPLIES)
def test_every_changed_byte_means_the_same_to_both(reply: bytes):
    for at in range(len(reply)):
        for value in range(256):
            changed = reply[:at] + bytes([value]) + reply[at + 1 :]
            check_agreement(changed)


@pytest.mark.parametrize("reply", REPLIES)
def test_every_inserted_or_removed_byte_means_the_same_to_both(reply: bytes):
    for at in range(len(reply) + 1):
        check_agreement(reply[:at] + reply[at + 1 :])
        for value in (0, 1, 8, 10, 16, 127, 128, 255):
            check_agreement(reply[:at] + bytes([value]) + reply[at:])


def fields_of(reply: bytes) -> tuple[bytes, bytes, bytes]:
    """Header, status and the rest of a reply in the usual order."""
    header_end = 2 + reply[1]
    return reply[:header_end], reply[header_end : header_end + 2], reply[header_end + 2 :]


@pytest.mark.parametrize("reply", REPLIES)
def test_fields_in_another_order_take_the_slow_way(reply: bytes):
    header, status, rest = fields_of(reply)
    for reordered in (rest + status + header, status + header + rest, header + rest + status):
        assert parse_add_reply(reordered) is None
        assert parse_read_reply(reordered) is None
        assert parse_reply(reordered) == parse_reply(reply)


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("unknown", [b"\xb8\x3e\x05", b"\xba\x3e\x03abc", b"\x20\x01", b"\xbd\x3e1234"])
def test_unknown_fields_take_the_slow_way(reply: bytes, unknown: bytes):
    header, status, rest = fields_of(reply)
    for longer in (reply + unknown, unknown + reply, header + unknown + status + rest):
        assert parse_add_reply(longer) is None
        assert parse_read_reply(longer) is None
        assert parse_reply(longer) == parse_reply(reply)


def test_a_field_that_comes_twice_takes_the_slow_way_and_the_last_one_counts():
    reply = add_reply(5, 6, 7) + pb.Response(status=504).SerializePartialToString()
    assert parse_add_reply(reply) is None
    assert parse_reply(reply).status == 504


@pytest.mark.parametrize("reply", REPLIES)
def test_a_longer_varint_than_needed_means_the_same_to_both(reply: bytes):
    header, status, rest = fields_of(reply)
    # The last byte of the header is the last of the transaction id: continue it with nothing.
    padded = header[:-1] + bytes([header[-1] | 128, 0])
    longer = padded[:1] + bytes([padded[1] + 1]) + padded[2:] + status + rest
    check_agreement(longer)
    assert parse_reply(longer) == parse_reply(reply)


@given(data=st.binary(max_size=60))
def test_random_bytes_hurt_nobody(data: bytes):
    check_agreement(data)


def test_a_giant_length_inside_is_refused():
    for reply in REPLIES:
        header, status, rest = fields_of(reply)
        giant = header + status + rest[:2] + b"\xff\xff\xff\xff\x07" + rest[3:]
        assert parse_add_reply(giant) is None
        assert parse_read_reply(giant) is None
        with pytest.raises(ProtocolError):
            parse_reply(giant)


def test_numbers_that_cannot_be_are_refused_when_encoding():
    with pytest.raises(struct.error):
        AddEncoder(1, KEY, DIGESTS[0]).encode(1, 2**63, 0, 0, b"")
