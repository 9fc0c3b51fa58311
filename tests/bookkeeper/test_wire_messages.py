"""Requests and replies of every operation: there and back, and only ProtocolError for what is malformed."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire import messages, server
from herdpy.bookkeeper.wire.availability import EntryRanges
from herdpy.bookkeeper.wire.entries import AddEncoder, encode_read
from herdpy.bookkeeper.wire.messages import Reply, parse_reply
from herdpy.bookkeeper.wire.proto import protocol_pb2 as pb
from herdpy.bookkeeper.wire.protocol import InfoField, Operation, ReplyStatus
from herdpy.bookkeeper.wire.server import encode_reply, parse_request
from tests.bookkeeper.sealing import sealed_body

KEY = bytes(range(20))
TXN = st.integers(0, 2**64 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
STATUS = st.sampled_from([*map(int, ReplyStatus), 599, 2**31 - 1])
MAYBE_BYTES = st.none() | st.binary(max_size=100)
ENTRY_IDS = st.sets(st.integers(0, 200), max_size=60).map(sorted).map(EntryRanges.of)


def body_of(frame: bytes) -> bytes:
    assert struct.unpack(">I", frame[:4]) == (len(frame) - 4,)
    return frame[4:]


@settings(max_examples=200)
@given(txn=TXN, ledger=INT64, entry=INT64, number=INT64, payload=st.binary(max_size=60), data=st.data())
def test_every_request_arrives_as_it_was_meant(
    txn: int, ledger: int, entry: int, number: int, payload: bytes, data: st.DataObject
):
    def arrived(frame: bytes) -> server.AnyRequest:
        return parse_request(body_of(frame))

    digest = Digest.of(data.draw(st.sampled_from(DigestType)), b"")
    lac_body = digest.seal_lac(ledger, number)
    timeout = data.draw(st.integers(0, 2**31))
    plugin = data.draw(st.text(max_size=20))
    assert arrived(encode_read(txn, ledger, entry)) == server.ReadRequest(txn, ledger, entry)
    assert arrived(messages.fence_read(txn, ledger, KEY)) == server.ReadRequest(
        txn, ledger, -1, KEY, fence=True
    )
    assert arrived(messages.fence_read(txn, ledger, KEY, entry)) == server.ReadRequest(
        txn, ledger, entry, KEY, fence=True
    )
    assert arrived(messages.long_poll(txn, ledger, number, timeout)) == server.ReadRequest(
        txn, ledger, -1, piggyback=True, previous_lac=number, timeout_ms=timeout
    )
    assert arrived(messages.read_lac(txn, ledger)) == server.ReadLacRequest(txn, ledger)
    assert arrived(messages.write_lac(txn, ledger, KEY, lac_body)) == server.WriteLacRequest(
        txn, ledger, number, KEY, lac_body
    )
    assert arrived(messages.force(txn, ledger)) == server.ForceRequest(txn, ledger)
    assert arrived(messages.bookie_info(txn)) == server.InfoRequest(txn, 3)
    assert arrived(messages.bookie_info(txn, InfoField.FREE_DISK_SPACE)) == server.InfoRequest(txn, 2)
    assert arrived(messages.list_entries(txn, ledger)) == server.ListRequest(txn, ledger)
    assert arrived(messages.auth(txn, plugin, payload)) == server.AuthRequest(txn, plugin, payload)
    assert arrived(messages.start_tls(txn)) == server.StartTlsRequest(txn)


@given(
    txn=TXN,
    ledger=INT64,
    entry=INT64,
    lac=INT64,
    data=st.binary(),
    recovery=st.booleans(),
    late=st.booleans(),
)
def test_every_add_arrives_as_it_was_meant(
    txn: int, ledger: int, entry: int, lac: int, data: bytes, recovery: bool, late: bool
):
    digest = Digest.of(DigestType.CRC32C, b"")
    encoder = AddEncoder(ledger, KEY, digest, recovery=recovery, deferred_sync=late)
    body = sealed_body(digest, ledger, entry, lac, 9, data)
    assert parse_request(body_of(encoder.encode(txn, entry, lac, 9, data))) == server.AddRequest(
        txn, ledger, entry, KEY, body, recovery=recovery, write_flags=int(late), priority=int(recovery)
    )


BODIES: list[tuple[Operation, st.SearchStrategy[messages.ReplyBody]]] = [
    (Operation.ADD_ENTRY, st.builds(messages.AddReply, STATUS, INT64, INT64)),
    (
        Operation.READ_ENTRY,
        st.builds(
            messages.ReadReply, STATUS, INT64, INT64, MAYBE_BYTES, st.none() | INT64, st.none() | INT64
        ),
    ),
    (Operation.READ_LAC, st.builds(messages.LacReply, STATUS, INT64, MAYBE_BYTES, MAYBE_BYTES)),
    (Operation.WRITE_LAC, st.builds(messages.WriteLacReply, STATUS, INT64)),
    (Operation.FORCE_LEDGER, st.builds(messages.ForceReply, STATUS, INT64)),
    (Operation.GET_BOOKIE_INFO, st.builds(messages.InfoReply, STATUS, st.none() | INT64, st.none() | INT64)),
    (Operation.GET_LIST_OF_ENTRIES, st.builds(messages.ListReply, STATUS, INT64, ENTRY_IDS)),
    (Operation.AUTH, st.builds(messages.AuthReply, st.text(max_size=20), st.binary(max_size=60))),
    (Operation.START_TLS, st.builds(messages.StartTlsReply)),
]


@pytest.mark.parametrize(("operation", "bodies"), BODIES, ids=lambda value: getattr(value, "name", ""))
@given(txn=TXN, data=st.data())
def test_every_reply_arrives_as_it_was_meant(
    operation: Operation, bodies: st.SearchStrategy[messages.ReplyBody], txn: int, data: st.DataObject
):
    body = data.draw(bodies)
    status = getattr(body, "status", 0)
    reply = Reply(txn, operation, status, body)
    assert parse_reply(body_of(encode_reply(reply))) == reply


@pytest.mark.parametrize(("operation", "bodies"), BODIES, ids=lambda value: getattr(value, "name", ""))
@given(txn=TXN, data=st.data())
def test_the_outer_refusal_counts_and_an_inner_one_is_not_missed(
    operation: Operation, bodies: st.SearchStrategy[messages.ReplyBody], txn: int, data: st.DataObject
):
    body = data.draw(bodies)
    assert parse_reply(body_of(encode_reply(Reply(txn, operation, 502, body)))).status == 502
    inner = getattr(body, "status", 0)
    assert parse_reply(body_of(encode_reply(Reply(txn, operation, 0, body)))).status == inner


@pytest.mark.parametrize("operation", [*Operation, 0, 13, 99])
def test_a_refusal_without_a_body_is_a_reply(operation: int):
    reply = Reply(5, operation, ReplyStatus.EBADREQ)
    assert parse_reply(body_of(encode_reply(reply))) == reply


@pytest.mark.parametrize("operation", [*Operation, 0, 13, 99])
def test_success_without_a_body_is_malformed_except_for_tls(operation: int):
    data = body_of(encode_reply(Reply(5, operation, ReplyStatus.EOK)))
    if operation == Operation.START_TLS:
        assert parse_reply(data).body == messages.StartTlsReply()
    else:
        with pytest.raises(ProtocolError, match="without a body"):
            parse_reply(data)


def test_a_body_of_another_operation_does_not_count():
    header = pb.Header(version=3, operation=Operation.READ_ENTRY, txn=5)
    add = pb.AddResponse(status=0, ledger_id=1, entry_id=2)
    with pytest.raises(ProtocolError, match="without a body"):
        parse_reply(pb.Response(header=header, status=0, add=add).SerializeToString())
    request = pb.Request(header=header, force=pb.ForceRequest(ledger_id=1))
    assert parse_request(request.SerializeToString()) == server.UnknownRequest(5, Operation.READ_ENTRY)


@pytest.mark.parametrize("version", [0, 1, 2, 4, -1])
def test_another_protocol_version_is_refused(version: int):
    header = pb.Header(version=version, operation=2, txn=5)
    add = pb.AddResponse(status=0, ledger_id=1, entry_id=2)
    with pytest.raises(ProtocolError, match="version"):
        parse_reply(pb.Response(header=header, status=0, add=add).SerializeToString())
    with pytest.raises(ProtocolError, match="version"):
        parse_request(pb.Request(header=header).SerializeToString())


def examples() -> list[tuple[str, Callable[[bytes], object], bytes]]:
    digest = Digest.of(DigestType.CRC32C, b"")
    bodies: list[tuple[Operation, messages.ReplyBody]] = [
        (Operation.ADD_ENTRY, messages.AddReply(0, 300, 301)),
        (Operation.READ_ENTRY, messages.ReadReply(0, 300, 301, b"body", 302, 303)),
        (Operation.READ_LAC, messages.LacReply(0, 300, b"lac", b"last")),
        (Operation.WRITE_LAC, messages.WriteLacReply(0, 300)),
        (Operation.FORCE_LEDGER, messages.ForceReply(0, 300)),
        (Operation.GET_BOOKIE_INFO, messages.InfoReply(0, 300, 301)),
        (Operation.GET_LIST_OF_ENTRIES, messages.ListReply(0, 300, EntryRanges.of([1, 2, 5, 6, 9, 10]))),
        (Operation.AUTH, messages.AuthReply("plugin", b"payload")),
        (Operation.START_TLS, messages.StartTlsReply()),
    ]
    frames = [
        encode_read(300, 301, 302),
        messages.fence_read(300, 301, KEY),
        messages.long_poll(300, 301, 302, 303),
        messages.read_lac(300, 301),
        messages.write_lac(300, 301, KEY, digest.seal_lac(301, 302)),
        messages.force(300, 301),
        messages.bookie_info(300),
        messages.list_entries(300, 301),
        messages.auth(300, "plugin", b"payload"),
        messages.start_tls(300),
        AddEncoder(301, KEY, digest, recovery=True, deferred_sync=True).encode(300, 302, 301, 4, b"data"),
    ]
    found: list[tuple[str, Callable[[bytes], object], bytes]] = [
        (f"reply-{operation.name}", parse_reply, body_of(encode_reply(Reply(300, operation, 0, body))))
        for operation, body in bodies
    ]
    return found + [(f"request-{at}", parse_request, body_of(frame)) for at, frame in enumerate(frames)]


EXAMPLES = [pytest.param(parse, data, id=name) for name, parse, data in examples()]


def parses(parse: Callable[[bytes], object], data: bytes) -> bool:
    """Whether it is accepted; any error but ProtocolError fails the test."""
    try:
        parse(data)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize(("parse", "data"), EXAMPLES)
def test_truncated_messages_are_refused_or_mean_what_was_left(parse: Callable[[bytes], object], data: bytes):
    assert parses(parse, data)
    assert not parses(parse, b"")
    accepted = [size for size in range(len(data)) if parses(parse, data[:size])]
    # A request may end after its header, and so may the reply that has nothing else to say.
    assert all(
        isinstance(parse(data[:size]), server.UnknownRequest | server.StartTlsRequest | Reply)
        for size in accepted
    )
    assert len(accepted) <= 2


@pytest.mark.parametrize(("parse", "data"), EXAMPLES)
def test_a_changed_byte_raises_nothing_else(parse: Callable[[bytes], object], data: bytes):
    refused = 0
    for at in range(len(data)):
        for value in range(256):
            refused += not parses(parse, data[:at] + bytes([value]) + data[at + 1 :])
    assert refused > 0


@pytest.mark.parametrize(("parse", "data"), EXAMPLES)
def test_a_wrong_wire_type_raises_nothing_else(parse: Callable[[bytes], object], data: bytes):
    for wire_type in range(8):
        header = bytes([data[0] & ~7 | wire_type]) + data[1:]
        assert parses(parse, header) == (wire_type == 2)


@pytest.mark.parametrize("parse", [parse_reply, parse_request])
@given(data=st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(parse: Callable[[bytes], object], data: bytes):
    assert not parses(parse, data)


@pytest.mark.parametrize("parse", [parse_reply, parse_request])
def test_deep_nesting_and_giant_lengths_are_refused(parse: Callable[[bytes], object]):
    good = body_of(encode_reply(Reply(1, 2, 0, messages.AddReply(0, 1, 2))))
    assert not parses(parse, good + b"\xbb\x3e" * 100_000)  # groups that open and never close
    assert not parses(parse, good + b"\xba\x3e\xff\xff\xff\xff\x0f")
    assert not parses(parse, good + b"\xba\x3e" + b"\xff" * 11)


def test_text_that_is_not_utf8_is_refused():
    header = pb.Header(version=3, operation=Operation.AUTH, txn=1).SerializeToString()
    auth = b"\x0a\x02\xff\xfe\x12\x00"
    reply = b"\x0a" + bytes([len(header)]) + header + b"\x10\x00\xb2\x06" + bytes([len(auth)]) + auth
    request = b"\x0a" + bytes([len(header)]) + header + b"\xb2\x06" + bytes([len(auth)]) + auth
    with pytest.raises(ProtocolError):
        parse_reply(reply)
    with pytest.raises(ProtocolError):
        parse_request(request)


def test_numbers_that_do_not_fit_are_refused_when_encoding():
    with pytest.raises(ValueError, match=r"out of range|Value"):
        messages.force(2**64, 1)
    with pytest.raises(ValueError, match=r"out of range|Value"):
        messages.force(1, 2**63)
    with pytest.raises(ValueError, match="no sealed"):
        messages.write_lac(1, 1, KEY, b"short")


def test_secrets_and_data_are_not_shown():
    secret = b"hunter2"
    shown = [
        repr(messages.AuthReply("plugin", secret)),
        repr(server.AuthRequest(1, "plugin", secret)),
        repr(server.AddRequest(1, 2, 3, secret, secret)),
        repr(server.ReadRequest(1, 2, 3, secret, fence=True)),
        repr(Reply(1, 1, 0, messages.ReadReply(0, 1, 2, secret))),
    ]
    assert not [text for text in shown if "hunter2" in text]
    assert dataclasses.asdict(messages.AuthReply("plugin", secret))["payload"] == secret


def required_fields(message: Message, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where the required fields of a message are, those of messages inside it too."""
    for described, value in message.ListFields():
        path = (*above, described.name)
        if described.is_required:
            yield path
        if isinstance(value, Message):
            yield from required_fields(value, path)


def without_each_required_field(data: bytes, kind: type[pb.Request] | type[pb.Response]) -> list[bytes]:
    """The message as often as it has required fields, each time without one of them."""
    found = []
    for path in required_fields(kind.FromString(data)):
        message = kind.FromString(data)
        part: Message = message
        for name in path[:-1]:
            part = getattr(part, name)
        part.ClearField(path[-1])
        found.append(message.SerializePartialToString())
    return found


@pytest.mark.parametrize(("parse", "data"), EXAMPLES)
def test_a_missing_required_field_is_refused(parse: Callable[[bytes], object], data: bytes):
    kind = pb.Response if parse is parse_reply else pb.Request
    shortened = without_each_required_field(data, kind)
    assert len(shortened) >= 4  # the header and its three, at the least
    assert not [short for short in shortened if parses(parse, short)]
