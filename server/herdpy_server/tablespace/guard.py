"""Whether a replica's state may be read, and whether what was read may be answered.

Beside ``tablespace``, which has a guard where it is one of several replicas, and none where it is alone.
``herdpy_server.replica`` makes it; sessions ask it twice for each statement that reads: before, whether
this replica may be read at the level that the session wants, and after, whether what was read may still be
answered. Both are one comparison where nothing is to be waited for.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

from herdpy.log.lsn import LSN, START
from herdpy_sql.errors import SqlError

Level = Literal["linearizable", "bounded", "at_lsn", "any"]
LEVELS: tuple[Level, ...] = ("linearizable", "bounded", "at_lsn", "any")


class ReadLevel(NamedTuple):
    """How new what a session reads must be.

    Attributes:
        level: "linearizable": nothing newer was committed when the statement began. "bounded": nothing that
            was committed more than ``max_staleness_s`` before is missing. "at_lsn": everything up to
            ``min_lsn`` is there. "any": whatever this replica has.
    """

    level: Level = "linearizable"
    max_staleness_s: float = 1.0
    min_lsn: LSN = START


class Guard(Protocol):
    """Who may read, and when.

    Attributes:
        basis: what answers rest on at this moment. Who begins to read takes it, and gives it to ``holds``.
    """

    @property
    def basis(self) -> object: ...

    def is_open(self, wanted: ReadLevel) -> bool:
        """Whether a read may begin now, with nothing to be waited for."""

    async def admit(self, wanted: ReadLevel) -> None:
        """Return when a read may begin.

        Raises:
            SqlError: HP003, only the leader can answer at this level, and it is another one; 57P03,
                there is none, or this replica cannot be read now.
        """

    def holds(self, wanted: ReadLevel, basis: object) -> bool:
        """Asked after a read, before the answer: whether the answer is as new as it must be.

        Args:
            basis: what the guard rested on when the read began. A leader that has lost its term
                meanwhile and won another may not answer: others may have led in between.
        """

    async def confirm(self, wanted: ReadLevel, basis: object) -> None:
        """As ``holds``, but waits until it can be said. SqlError as ``admit``; 40001, the leader changed."""

    def refusal(self, what: str) -> SqlError:
        """Why ``what`` cannot be done here: 25006, naming the leader."""

    def leader_unreached(self, client: str) -> str:
        """A client that is here cannot reach the leader: say so to operators.

        Returns:
            The node that leads and its address for clients; empty when none is known, or it is this one.
        """
