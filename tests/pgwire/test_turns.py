"""A client who asks much at once does not keep the loop from others."""

from __future__ import annotations

import threading

import pytest

from herdpy_server.pgwire import conversation
from tests.pgwire.servers import ThreadServer
from tests.pgwire.wire import SYNC, Wire, bind, execute, parse

REQUESTS = 500


@pytest.mark.parametrize("end", [False, True], ids=["goes on", "says no more"])
def test_what_was_pipelined_is_answered_in_turns(
    server: ThreadServer, monkeypatch: pytest.MonkeyPatch, *, end: bool
) -> None:
    passes = 0
    advance = conversation.Conversation.advance

    def counted(self: conversation.Conversation) -> None:
        nonlocal passes
        passes += 1
        advance(self)

    monkeypatch.setattr(conversation.Conversation, "advance", counted)
    with Wire(server.address) as wire:
        wire.start()
        before = passes
        wire.send(parse("SELECT $1::int", "s"), SYNC)
        wire.replies()
        requests = b"".join(bind([b"%d" % at], statement="s") + execute() + SYNC for at in range(REQUESTS))
        wire.send(requests)
        if end:
            wire.socket.shutdown(1)
        rows = [reply.body[6:] for _ in range(REQUESTS) for reply in wire.replies() if reply.kind == "D"]
        assert rows == [b"%d" % at for at in range(REQUESTS)]
        if not end:
            assert (
                passes - before >= 2 * REQUESTS // conversation.PASS_MESSAGES
            )  # at least Bind and Sync each


def test_what_comes_while_a_turn_is_due_makes_it_no_longer(
    server: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, taken = 0, 0
    advance = conversation.Conversation.advance

    def watched(self: conversation.Conversation) -> None:
        nonlocal came, taken
        due, before = self._turn_is_due, self.connection.inbox.waiting_bytes
        advance(self)
        if due:
            came += 1
            taken += before - self.connection.inbox.waiting_bytes

    monkeypatch.setattr(conversation.Conversation, "advance", watched)
    count = 20_000
    with Wire(server.address) as wire:
        wire.start()
        wire.send(parse("SELECT $1::int", "s"), SYNC)
        wire.replies()
        one = bind([b"7"], statement="s") + execute()
        sender = threading.Thread(target=wire.send, args=(one * count + SYNC,))
        sender.start()
        rows = sum(reply.kind == "D" for reply in wire.replies())
        sender.join()
    assert rows == count
    assert came > 0
    assert taken == 0
