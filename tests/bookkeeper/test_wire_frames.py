"""Frames: whatever the pieces, the same frames; lengths beyond the limit are refused at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.bookkeeper.errors import ProtocolError
from herdpy.bookkeeper.wire.frames import FrameSplitter
from herdpy.bookkeeper.wire.protocol import frame


@given(bodies=st.lists(st.binary(max_size=300), max_size=20), data=st.data())
def test_the_pieces_do_not_matter(bodies: list[bytes], data: st.DataObject):
    stream = b"".join(map(frame, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    splitter = FrameSplitter(300)
    found: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += splitter.feed(stream[start:end])
    assert found == bodies


def test_every_frame_comes_out_with_its_last_byte():
    splitter = FrameSplitter(100)
    stream = frame(b"abc") + frame(b"") + frame(b"x" * 100)
    ends = [at for at, byte in enumerate(stream) if splitter.feed(bytes([byte]))]
    assert ends == [6, 10, 114]


@pytest.mark.parametrize("prefix", ["00000065", "7fffffff", "80000000", "ffffffff", "41414141"])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_frame_beyond_the_limit_is_refused_at_its_prefix(prefix: str, step: int):
    stream = bytes.fromhex(prefix)
    splitter = FrameSplitter(100)
    for at in range(0, 4 - step, step):
        assert splitter.feed(stream[at : at + step]) == []
    with pytest.raises(ProtocolError, match="100 are allowed"):
        splitter.feed(stream[4 - step :])
    with pytest.raises(ProtocolError, match="100 are allowed"):
        splitter.feed(frame(b"good again"))


def test_a_frame_of_the_limit_is_accepted():
    assert FrameSplitter(100).feed(frame(b"x" * 100)) == [b"x" * 100]


def test_a_large_frame_byte_by_byte_keeps_few_pieces():
    splitter = FrameSplitter(20_000)
    stream = frame(bytes(range(256)) * 60)
    for at in range(len(stream) - 1):
        assert splitter.feed(stream[at : at + 1]) == []
        assert len(splitter._pieces) < 4096
    assert splitter.feed(stream[-1:]) == [stream[4:]]


def test_what_is_left_over_waits_for_the_next_feed():
    splitter = FrameSplitter(100)
    assert splitter.feed(frame(b"one") + frame(b"two")[:5]) == [b"one"]
    assert splitter.feed(frame(b"two")[5:] + frame(b"three")) == [b"two", b"three"]
    assert splitter.feed(b"") == []
