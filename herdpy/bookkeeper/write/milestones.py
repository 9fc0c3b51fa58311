"""Who waits until a ledger has reached an entry: closing, forcing, and the like.

Beside the pipeline, which tells how far its entries are complete, and that it has ended.
"""

from __future__ import annotations

import asyncio


class Milestones:
    """Futures by the entry that they wait for.

    Attributes:
        waiting: those, with their entries.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for(self, entry_id: int) -> None:
        """Return when ``passed`` is told this entry or a later one, or ``ended`` is called."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((entry_id, future))
        await future

    def passed(self, confirmed: int) -> None:
        """The entries up to this one are complete."""
        waiting, self.waiting = self.waiting, []
        for entry_id, future in waiting:
            if confirmed < entry_id:
                self.waiting.append((entry_id, future))
            elif not future.done():
                future.set_result(None)

    def ended(self) -> None:
        """Nothing more will be complete."""
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)
