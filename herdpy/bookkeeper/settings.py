"""What a client may be told: every limit and every time-out, in one frozen place.

All layers read their limits from here and from nowhere else. Times are seconds (``_s``), sizes are
bytes (``_bytes``). The defaults suit bookies on one network; nothing needs to be set to begin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from herdpy.bookkeeper.auth_provider import AuthProvider
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

if TYPE_CHECKING:
    import ssl


FRAME_RESERVE_BYTES = 1024
"""Room in a frame for what surrounds an entry: its digest (at most 20 B), the request's header and key."""

_OPTIONAL = ("tail_interval_s", "explicit_lac_interval_s")


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
        quarantine_s: a bookie that failed a write is avoided for new ensembles for so long.
        zookeeper_timeout_s: the session time-out asked of ZooKeeper.
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
