"""A client's settings: every limit and time-out, in one frozen place, and what callers hand in, checked.

All layers read their limits from here and from nowhere else. Times are seconds (``_s``), sizes are bytes
(``_bytes``). The defaults suit bookies on one network; nothing needs to be set to begin. A wrong argument is
a ValueError or TypeError that says what would be right, before anything is sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Protocol

from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

if TYPE_CHECKING:
    import ssl


class AuthExchange(Protocol):
    """One connection's side of an authentication; made anew for each connection."""

    def start(self) -> bytes:
        """The first token to send (may be empty)."""

    def respond(self, payload: bytes) -> bytes | None:
        """The answer to the bookie's token; None when the bookie is satisfied and so are we.

        Raises AuthenticationError when the bookie's token is not acceptable.
        """


class AuthProvider(Protocol):
    """A way to authenticate at bookies: the name of the plugin they must run, and its exchanges.

    A provider serves all connections, also at the same time, so what belongs to one lives in its exchange.
    """

    @property
    def plugin(self) -> str:
        """The plugin's name as the bookie knows it."""

    def exchange(self, host: str) -> AuthExchange:
        """A new exchange for a connection to that host."""


FRAME_RESERVE_BYTES = 1024
"""Room in a frame for what surrounds an entry: its digest (at most 20 B), the request's header and key."""

_OPTIONAL = ("zookeeper_patience_s", "tail_interval_s", "explicit_lac_interval_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Limits and time-outs of a client.

    Attributes:
        request_timeout_s: how long a bookie may take to answer one request. Also how long a recovery, or
            the question what is confirmed, waits for needed bookies that cannot be reached to come back.
        connect_timeout_s: how long connecting to a bookie may take, TLS and authentication included.
        speculative_read_s: a replica that has not answered a read after this long is not given up, but
            the next one is asked as well; doubled for each further replica.
        long_poll_s: how long a tailing reader lets a bookie hold a request until there is news.
        tail_interval_s: a tailing reader asks bookies for news so often at most, and gets what has gathered
            in between at once: cheaper for both by far while news come all the time, later by as much (but
            see ``LedgerReader.hurry``). None: it asks again as soon as it has had an answer.
        explicit_lac_interval_s: an idle writer tells the bookies this often what is confirmed, so that
            tailing readers get the last entry, too. None: never.
        max_frame_bytes: the largest frame sent or accepted; not above the bookies' own limit
            (nettyMaxFrameSizeBytes, 5 MiB unless configured).
        max_in_flight_bytes, max_in_flight_entries: how much one writer may have appended and not yet
            confirmed; an ``append`` beyond it waits, an ``append_nowait`` is refused.
        max_bookie_pending_bytes, max_bookie_pending_entries: how much may wait for one slow bookie before
            appends wait. A bookie refuses more adds at a time than its maxPendingAddRequestsPerThread
            (10,000), those that it finds waiting after a pause included.
        read_ahead_bytes, read_ahead_entries: how far a reader reads ahead of its consumer.
        backoff_first_s, backoff_max_s: pause after a failed connection, doubled each time, at most so long.
            It ends when the bookie registers.
        quarantine_s: a bookie that failed a write is avoided for new ensembles for so long, or until it
            registers again.
        zookeeper_timeout_s: the session time-out asked of ZooKeeper.
        zookeeper_patience_s: how long ``open`` waits for ZooKeeper's first answer; None: as long as that.
        zookeeper_access: whether ZooKeeper is spoken to by TLS, and with which certificates.
        tls: how to speak TLS to bookies (START_TLS); None: in the clear.
        auth: how to authenticate at each bookie; None: not at all.

    Raises:
        ValueError: a number is not positive and finite, or two contradict each other.
    """

    request_timeout_s: float = 5.0
    connect_timeout_s: float = 5.0
    speculative_read_s: float = 0.5
    long_poll_s: float = 1.0
    tail_interval_s: float | None = None
    explicit_lac_interval_s: float | None = 0.1
    max_frame_bytes: int = 5 * 1024 * 1024
    max_in_flight_bytes: int = 64 * 1024 * 1024
    max_in_flight_entries: int = 10_000
    max_bookie_pending_bytes: int = 64 * 1024 * 1024
    max_bookie_pending_entries: int = 8_000
    read_ahead_bytes: int = 8 * 1024 * 1024
    read_ahead_entries: int = 512
    backoff_first_s: float = 0.05
    backoff_max_s: float = 2.0
    quarantine_s: float = 60.0
    zookeeper_timeout_s: float = 10.0
    zookeeper_patience_s: float | None = None
    zookeeper_access: ZooKeeperAccess = IN_THE_CLEAR
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    auth: AuthProvider | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in ("tls", "auth", "zookeeper_access") or (one.name in _OPTIONAL and value is None):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{one.name} must be a number, not {type(value).__name__}")
            if one.name.endswith(("_bytes", "_entries")) and not isinstance(value, int):
                raise ValueError(f"{one.name} must be a whole number, not {value!r}")
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{one.name} must be positive, not {value!r}")
        if self.max_frame_bytes <= 2 * FRAME_RESERVE_BYTES:
            raise ValueError(f"max_frame_bytes must be above {2 * FRAME_RESERVE_BYTES}")
        if self.backoff_max_s < self.backoff_first_s:
            raise ValueError("backoff_max_s must not be below backoff_first_s")

    @property
    def max_entry_bytes(self) -> int:
        """The most data that one entry can carry: a frame less what surrounds the data in it."""
        return self.max_frame_bytes - FRAME_RESERVE_BYTES


# Arguments.

MAX_LEDGER_ID = 2**63 - 1
MAX_CUSTOM_METADATA_BYTES = 512 * 1024
"""All keys and values together: ZooKeeper refuses a znode above 1 MiB (jute.maxbuffer)."""


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """ensemble_size >= write_quorum >= ack_quorum >= 1."""
    named = {"ensemble_size": ensemble_size, "write_quorum": write_quorum, "ack_quorum": ack_quorum}
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        given = ", ".join(f"{name}={value}" for name, value in named.items())
        raise ValueError(f"ensemble_size >= write_quorum >= ack_quorum >= 1 must hold, given were {given}")


def check_ledger_id(ledger_id: int) -> None:
    """0 <= ledger_id < 2**63."""
    if isinstance(ledger_id, bool) or not isinstance(ledger_id, int):
        raise TypeError(f"a ledger id must be a whole number, not {type(ledger_id).__name__}")
    if not 0 <= ledger_id <= MAX_LEDGER_ID:
        raise ValueError(f"a ledger id is at least 0 and below 2**63, not {ledger_id}")


def check_password(password: bytes) -> None:
    """Bytes; the value is never part of a message."""
    if not isinstance(password, bytes):
        raise TypeError(f"the password must be bytes, not {type(password).__name__}: b'...' or text.encode()")


def check_custom_metadata(custom: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """A copy of a mapping of str to bytes that fits a znode."""
    if custom is None:
        return {}
    if not isinstance(custom, Mapping):
        raise TypeError(f"custom_metadata must be a mapping of str to bytes, not {type(custom).__name__}")
    total = 0
    for name, value in custom.items():
        if not isinstance(name, str) or not isinstance(value, bytes):
            raise TypeError(
                f"custom_metadata maps str to bytes, not {type(name).__name__} to {type(value).__name__}"
            )
        total += len(name.encode()) + len(value)
    if total > MAX_CUSTOM_METADATA_BYTES:
        raise ValueError(f"custom_metadata has {total:,} bytes, at most {MAX_CUSTOM_METADATA_BYTES:,} fit")
    return dict(custom)
