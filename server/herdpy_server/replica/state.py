"""What a replica is doing. The lowest module of the package."""

from __future__ import annotations

import enum


class ReplicaState(enum.Enum):
    """What a replica is doing; the value is what operators see."""

    OPENING = "opening"
    """The store is being opened."""
    SEEDING = "seeding"
    """It gets a snapshot of another replica: new, too far behind, or found to differ."""
    FOLLOWING = "following"
    TAKING_OVER = "taking over"
    """Elected; the log is being recovered."""
    LEADING = "leading"
    HANDING_OVER = "handing over"
    """What is under way is finished before another leads."""
    QUARANTINED = "quarantined"
    """It differs from the others, or its log is damaged: nobody is answered from it."""
    AHEAD = "ahead of the log"
    """It has applied what the log has lost, or what is of another log: it is kept as it is, for an operator
    to decide, and nobody is answered from it."""
    CLOSED = "closed"


UNREADABLE = frozenset(
    {
        ReplicaState.OPENING,
        ReplicaState.SEEDING,
        ReplicaState.QUARANTINED,
        ReplicaState.AHEAD,
        ReplicaState.CLOSED,
    }
)
"""What it holds then, if anything, is no state of the log; in all others it is one, if an old one."""
