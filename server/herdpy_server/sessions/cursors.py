"""The portals of a session, as far as their answers are kept: cursors, and what Execute gives in parts.

Above ``block``, below ``backend_queries``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.portals import Portal
    from herdpy_server.sessions.result import Result


class Cursors:
    """What the portals of one session hold."""

    def __init__(self, block: TransactionBlock, temp_directory: str | None) -> None:
        """``temp_directory``: where files are made for rows that memory does not hold."""
        self._block = block
        self._temp_directory = temp_directory

    def hold(self, portal: Portal, answer: Result) -> None:
        """Keep an answer, or what is to come of it, in a portal. SqlError 53400 when that are too many."""
        if answer.stream is not None:
            try:
                self._block.allowed.check_large(
                    sum(1 for one in self._block.portals.values() if one.is_large)
                )
            except SqlError:
                answer.stream.close()
                raise
        portal.holds(answer, self._temp_directory)

    async def settle(self) -> None:
        """Read the answers of portals to their ends: a session occupies the columnar engine once at a time.

        Or one that opens cursor after cursor would wait for what it keeps busy itself.
        """
        for portal in list(self._block.portals.values()):
            if portal.buffer is not None and portal.buffer.count:  # it has begun
                await portal.buffer.settle()
