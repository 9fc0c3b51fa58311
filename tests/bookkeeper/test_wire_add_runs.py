"""Runs of acknowledged adds, taken out at once: the same adds as frame by frame, whatever comes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire.entries import find_adds, parse_add_reply
from herdpy.bookkeeper.wire.frames import FrameSplitter
from herdpy.bookkeeper.wire.messages import parse_reply
from herdpy.bookkeeper.wire.proto import protocol_pb2 as pb
from herdpy.bookkeeper.wire.protocol import frame

EDGES = sorted({0, 1, 5, *(2**bits + by for bits in range(7, 63, 7) for by in (-1, 0, 1)), 2**63 - 1})
ID = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**63 - 1))


def add_reply(txn: int, ledger: int = 7, entry: int = 5, status: int = 0) -> bytes:
    add = pb.AddResponse(status=status, ledger_id=ledger, entry_id=entry)
    header = pb.Header(version=3, operation=2, txn=txn)
    return frame(pb.Response(header=header, status=status, add=add).SerializeToString())


def read_reply(txn: int) -> bytes:
    read = pb.ReadResponse(status=0, ledger_id=7, entry_id=5, body=b"body")
    header = pb.Header(version=3, operation=1, txn=txn)
    return frame(pb.Response(header=header, status=0, read=read).SerializeToString())


def one_by_one(data: bytes) -> tuple[list[int], list[bytes]]:
    """What there is, found frame by frame: transaction ids of adds, and the other frames."""
    txns, others = [], []
    for each in FrameSplitter().feed(data):
        added = parse_add_reply(each)
        if added is None:
            others.append(each)
        else:
            txns.append(added[0])
    return txns, others


def check_agreement(data: bytes) -> None:
    """What is taken out in front is what protobuf finds there."""
    txns, end = find_adds(data)
    replies = [parse_reply(each) for each in FrameSplitter().feed(data[:end])]
    assert [(2, 0, txn) for txn in txns] == [(one.operation, one.status, one.txn) for one in replies]


REPLY = st.one_of(
    st.builds(add_reply, ID, ID, ID),
    st.builds(add_reply, ID, ID, ID, st.sampled_from([101, 104])),
    st.builds(read_reply, ID),
    # Neighbours, as they come in truth.
    st.builds(
        lambda first, count, entry: b"".join(add_reply(first + i, 12345, entry + i) for i in range(count)),
        st.sampled_from([1, 120, 16_380, 300_000, 2**28 - 3, 2**40]),
        st.integers(1, 12),
        st.sampled_from([0, 125, 16_382]),
    ),
)


@settings(max_examples=300)
@given(replies=st.lists(REPLY, max_size=8), data=st.data())
def test_the_same_as_frame_by_frame_in_any_pieces(replies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(replies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = FrameSplitter()
    txns: list[int] = []
    others: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found, frames = splitter.feed_answers(stream[start:end])
        txns += found
        for each in frames:
            added = parse_add_reply(each)
            if added is None:
                others.append(each)
            else:
                txns.append(added[0])
    assert (txns, others) == one_by_one(stream)


@given(txn=ID, ledger=ID, entry=ID, count=st.integers(1, 5))
def test_a_run_is_found_whole(txn: int, ledger: int, entry: int, count: int) -> None:
    stream = add_reply(txn, ledger, entry) * count
    assert find_adds(stream) == ([txn] * count, len(stream))
    assert find_adds(stream + read_reply(9)) == ([txn] * count, len(stream))
    assert find_adds(stream[:-1]) == ([txn] * (count - 1), len(stream) // count * (count - 1))


RUNS = [
    add_reply(300_000, 123_456, 299_000) + add_reply(300_001, 123_456, 299_001),
    add_reply(3, 1, 0) * 2,
    add_reply(2**40, 2**50, 2**62) * 2,
    add_reply(2**21, 1, 5) + add_reply(2**21 + 1, 1, 5, status=101),
]


@pytest.mark.parametrize("run", RUNS)
def test_every_changed_byte_means_the_same(run: bytes) -> None:
    for at in range(len(run)):
        for value in range(256):
            check_agreement(run[:at] + bytes([value]) + run[at + 1 :])


@pytest.mark.parametrize("run", RUNS)
def test_every_inserted_or_removed_byte_means_the_same(run: bytes) -> None:
    for at in range(len(run) + 1):
        check_agreement(run[:at] + run[at + 1 :])
        for value in (0, 1, 8, 10, 16, 127, 128, 255):
            check_agreement(run[:at] + bytes([value]) + run[at:])


@given(data=st.binary(max_size=80))
def test_random_bytes_are_no_adds(data: bytes) -> None:
    check_agreement(data)


def test_a_frame_too_long_is_refused_after_adds_too() -> None:
    with pytest.raises(ProtocolError):
        FrameSplitter(100).feed_answers(add_reply(5) + b"\x7f\xff\xff\xff")
