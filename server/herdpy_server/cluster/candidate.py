"""What an election asks and tells of the replica that stands in it.

Between ``election``, which calls it, and the tablespace's replica, which makes one of its own methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from herdpy.log.lsn import LSN
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.term import Term


@dataclass(frozen=True, slots=True)
class Candidate:
    """This node as its replica sees it. All are called on the loop.

    Attributes:
        position: up to where the replica has applied the log.
        lacks: why the replica cannot lead now (quarantined, older than the log's base, being seeded), or
            None. Asked before each attempt and once more after winning. ``Election.reconsider`` after it
            changes.
        won: a term has begun: recover the log, then await ``term.alone()``.
        lost: the term is over and was not resigned: answer and acknowledge nothing more. Called in the turn
            of the loop in which it is heard of; ``term.loss`` says why.
        leader: who leads now, or None: told after each change, own terms included.
    """

    position: Callable[[], LSN]
    lacks: Callable[[], Awaitable[str | None]]
    won: Callable[[Term], None]
    lost: Callable[[Term], None]
    leader: Callable[[LeaderRecord | None], None] = lambda _leader: None
