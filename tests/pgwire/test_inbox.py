"""Cutting a stream of bytes into messages, however it arrives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy_server.pgwire.backend import FatalError, SilentClose
from herdpy_server.pgwire.frontend import Inbox
from tests.pgwire.wire import message

_bodies = st.lists(st.binary(max_size=40), max_size=8)


def take_all(inbox: Inbox) -> list[tuple[int, bytes]]:
    found = []
    while (one := inbox.next()) is not None:
        kind, at, stop = one
        found.append((kind, inbox.data[at:stop]))
    return found


@given(bodies=_bodies, cuts=st.lists(st.integers(1, 30)))
def test_messages_come_out_as_they_went_in(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(message("d", body) for body in bodies)
    inbox, found = Inbox(1000), []
    for cut in [*cuts, len(stream) or 1]:
        if stream:
            inbox.feed(stream[:cut])
            found += take_all(inbox)
            stream = stream[cut:]
    while stream:
        inbox.feed(stream[:7])
        found += take_all(inbox)
        stream = stream[7:]
    assert found == [(ord("d"), body) for body in bodies]
    assert inbox.waiting_bytes == 0


def test_a_long_message_in_many_pieces_is_put_together_once() -> None:
    body = bytes(range(256)) * 4096
    stream = message("d", body)
    inbox = Inbox(len(stream))
    for at in range(0, len(stream) - 1000, 1000):
        inbox.feed(stream[at : at + 1000])
        assert inbox.next() is None
        assert inbox.waiting_bytes == at + 1000
        assert len(inbox.data) <= 2000  # the pieces are kept apart
    inbox.feed(stream[(len(stream) - 1000) // 1000 * 1000 + (1000 if len(stream) % 1000 else 0) :])
    if inbox.next() is None:
        pytest.fail("the message is complete")


@pytest.mark.parametrize("data", [b"Q\0\0\0\3", b"S\0\0\x40\0", b"E\0\0\x40\0", b"Q\xff\xff\xff\xff"])
def test_a_length_that_no_message_has_is_refused(data: bytes) -> None:
    inbox = Inbox((1 << 32) - 1)
    inbox.feed(data)
    if data[1] == 0xFF:
        assert inbox.next() is None  # as long as this server says it may be
        return
    with pytest.raises(SilentClose):
        inbox.next()


@pytest.mark.parametrize("data", [b"\0", b"!", b"p\0\0\0\4", b"\xff\0\0\0\4"])
def test_an_unknown_type_is_refused_at_its_first_byte(data: bytes) -> None:
    inbox = Inbox(1000)
    inbox.feed(data)
    with pytest.raises(FatalError) as caught:
        inbox.next()
    assert caught.value.error.sqlstate == "08P01"


def test_a_message_longer_than_allowed_is_refused_before_it_arrives() -> None:
    inbox = Inbox(100_000)
    inbox.feed(b"Q" + (100_001).to_bytes(4, "big"))
    with pytest.raises(FatalError) as caught:
        inbox.next()
    assert caught.value.error.sqlstate == "54000"
