"""Who leads: the candidate whose ephemeral sequence znode has the lowest number.

ZooKeeper removes the znode of a process that has died, or that was silent for longer than its session
lives. So a process that was paused (Ctrl-Z) may have been deposed without knowing it. That is why the
election decides only who *tries* to lead. What keeps an old leader from writing is the fence on its ledger
and the compare-and-set on the list: see dice.py.
"""

from __future__ import annotations

import asyncio
import uuid

from herdpy.bookkeeper import BookKeeperError, Znodes


class Election:
    """One process's candidacy. `leading` says how it stands; `changed` is set when that may have changed."""

    def __init__(self, znodes: Znodes, path: str) -> None:
        self._znodes = znodes
        self._path = path
        # The name says whose it is: after a lost reply the process finds its own candidacy by it.
        self._name = uuid.uuid4().hex
        self._candidates: list[str] = []
        self._standing: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()
        self._watch = znodes.watch_children(path, self._on_candidates)

    @property
    def leading(self) -> bool:
        """Whether this process was first in the queue when ZooKeeper was last heard."""
        queue = sorted(self._candidates, key=lambda name: int(name.rpartition("-")[2]))
        return bool(queue) and queue[0].startswith(self._name)

    def close(self) -> None:
        """Stand no longer. The znode goes with the session."""
        self._watch.cancel()
        if self._standing is not None:
            self._standing.cancel()

    def _on_candidates(self, names: list[str] | None) -> None:
        """Called with the present candidates, and after every change of them."""
        self._candidates = names or []
        self.changed.set()
        mine = any(name.startswith(self._name) for name in self._candidates)
        if not mine and (self._standing is None or self._standing.done()):
            # At the beginning, and whenever the session, and the znode with it, was lost.
            self._standing = asyncio.get_running_loop().create_task(self._stand())

    async def _stand(self) -> None:
        while not any(name.startswith(self._name) for name in self._candidates):
            try:
                path = f"{self._path}/{self._name}-"
                await self._znodes.create(path, ephemeral=True, sequence=True, make_parents=True)
                return  # the watch tells the rest
            except BookKeeperError:
                await asyncio.sleep(1)  # ZooKeeper is away
