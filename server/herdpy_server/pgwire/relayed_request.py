"""One request of a forwarded session on its way: what was sent to the leader, and what has been answered.

Pure; below ``forwarding``. A request ends with Query or Sync, and its answer with ReadyForQuery. As long as
the client has got nothing of the answer the request can be made again, at another leader. An answer to what
may have committed is held back up to ReadyForQuery: when the leader is lost in between, and the commit is
found done, it is still there; of what is missing of it (:meth:`RelayedRequest.rest`) everything that does not
depend on rows is known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from herdpy_server.pgwire.backend import (
    BIND_COMPLETE,
    CLOSE_COMPLETE,
    NO_DATA,
    PARSE_COMPLETE,
    command_complete,
)
from herdpy_server.pgwire.forward_choice import ENDS, StatementTraits

_SENT_BYTES: Final = 1 << 20
_HELD_BYTES: Final = 1 << 20
_READ_BYTES: Final = 64 << 10
"""So much is kept of a request, of the answer of what writes, and of what only reads."""
_BEGINS = frozenset({"BEGIN", "START"})
_KNOWN_ANSWERS = {"1": PARSE_COMPLETE, "2": BIND_COMPLETE, "3": CLOSE_COMPLETE, "D": NO_DATA}
_OF_EXECUTE = frozenset("CIs")
_UNKNOWN = b"\0C08007\0"


@dataclass(frozen=True, slots=True)
class _Expected:
    """An answer to come: "1", "2", "3", "D" (a portal's description), "S" (a statement's), "E" (of an
    execution, with its tag if known)."""

    kind: str
    is_visible: bool = True
    tag: str | None = None


class RelayedRequest:
    """Attributes:
    extended: it is an extended query. ``is_sent``: all of it has been sent. ``copying``: COPY wants data.
    sent: the client's messages, to be sent again; None: too many.
    attaches: it has the first statement that a transaction forwards.
    is_refused: a node that does not lead has not begun it.
    to_pass_over: so many ReadyForQuery come that the client does not get.
    parsed: the names that were parsed by it.
    request_id: the name of its commit. ``is_own``: the client gave it.
    writes: it may have committed something. ``named``: under its name.
    commits: how many transactions it can commit.
    held: of the answer, what the client has not got. ``is_released``: it has got some.
    hold: nothing is to be sent before the end.
    error, status: how it ended: an ErrorResponse, and the transaction's status; None and "": not yet.
    position: of its commit in the log; "" for none.
    last_tag: the newest command tag. ``tags``: those that its portals will have, where they are known.
    """

    def __init__(self, request_id: str, *, extended: bool, explicit: bool, is_own: bool) -> None:
        """``explicit``: it is part of a transaction."""
        self.request_id = request_id
        self.is_own = is_own
        self.extended = extended
        self.sent: bytearray | None = bytearray()
        self.parsed: list[str] = []
        self.is_sent = self.copying = self.attaches = False
        self.writes = self.is_refused = False
        self.to_pass_over = 0
        self.named = True
        self.hold = not explicit
        self.held: list[bytes] = []
        self.is_released = False
        self.error: bytes | None = None
        self.status = ""
        self.position = ""
        self.last_tag = ""
        self.tags: dict[str, str | None] = {}
        self._explicit = explicit
        self._begins = False
        self._ends = 0
        self._held_bytes = 0
        self._expected: deque[_Expected] = deque()
        self._dropped: bytes | None = None
        self._failed = False

    # What is sent.

    def note(self, message: bytes) -> None:
        """A message of the client is sent."""
        if self.sent is not None:
            self.sent += message
            if len(self.sent) > _SENT_BYTES:
                self.sent = None

    def add(self, traits: StatementTraits, keyword: str) -> None:
        """It has this statement."""
        self.writes |= traits.writes
        self.named &= traits.named
        self._begins |= keyword in _BEGINS
        self._ends += keyword in ENDS

    def expect(self, kind: str, tag: str | None = None, *, is_visible: bool = True) -> None:
        """An answer is to come."""
        self._expected.append(_Expected(kind, is_visible, tag))

    @property
    def commits(self) -> int:
        """How many commits it can have made."""
        return self._ends or int(self.writes and not self._explicit and not self._begins)

    # What is answered.

    def answer(self, message: bytes) -> None:
        """A message of the leader, but for ReadyForQuery."""
        kind = chr(message[0])
        if kind == "E":
            self._fail(message)
            return
        expected = self._expected
        if kind in _OF_EXECUTE:
            if expected:
                expected.popleft()
            if kind == "C":
                self.last_tag = message[5:-1].decode()
        elif kind in "123":
            if expected and not expected.popleft().is_visible:
                return
        elif kind in "nT" and expected and expected[0].kind in "DS":
            expected.popleft()
        elif kind in "GW":
            self.copying = True
        self.held.append(message)
        self._held_bytes += len(message)

    def _fail(self, message: bytes) -> None:
        """An error ends it. One of the commit takes the place of the last statement's answer."""
        if self.copying:
            self.copying = False
            self.is_sent &= not self.extended  # a Sync that came among the data was none
        at = len(self.held) - 1
        while at >= 0 and self.held[at][:1] == b"N":
            at -= 1
        if not self._expected and at >= 0 and self.held[at][:1] == b"C":
            self._dropped = self.held.pop(at)
        self.error = message
        if _UNKNOWN not in message:  # else the commit may be done, and the answer is still to come
            self._failed = bool(self._expected)
            self._expected.clear()

    @property
    def is_full(self) -> bool:
        """Whether more is held than shall be."""
        return self._held_bytes > (_HELD_BYTES if self.writes else _READ_BYTES)

    def release(self) -> list[bytes]:
        """What is held, for the client."""
        held, self.held, self._held_bytes = self.held, [], 0
        self.is_released |= bool(held)
        return held

    def rest(self) -> list[bytes] | None:
        """Its transaction is committed: what is missing of the answer; None: nobody knows it any more."""
        if self._failed or self.commits != 1:
            return None
        found = [] if self._dropped is None else [self._dropped]
        for one in self._expected:
            answer = command_complete(one.tag) if one.tag is not None else _KNOWN_ANSWERS.get(one.kind)
            if answer is None:
                return None
            if one.is_visible:
                found.append(answer)
        return found
