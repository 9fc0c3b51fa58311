"""A model bookie's place in ZooKeeper: its cookie, and an ephemeral znode while it lives.

Format: BookKeeper's discover/ZKRegistrationManager.java and BookieServiceInfoFormat. A bookie whose session
expired (it was paused, or cut off) registers anew with its next session.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import NodeExistsError, NoNodeError, SessionState
from herdpy.testing.model.znodes import ModelZnodes

_RETRY_S = 0.5


class Registration:
    """Keeps `available/<id>` or `available/readonly/<id>` there for as long as the bookie runs."""

    def __init__(self, znodes: ModelZnodes, root: str, bookie_id: str) -> None:
        self._znodes = znodes
        self._root = root
        self._bookie_id = bookie_id
        self._is_readonly = False
        self._task: asyncio.Task[None] | None = None
        self._registered: tuple[int, bool] | None = None  # the session that owns the znode, and its kind
        self._wanted = asyncio.Event()
        self._wanted.set()
        self._there = asyncio.Event()

    async def start(self) -> None:
        """Register; returns when the znode is there, or the process is gone."""
        self._znodes.on_session(self._session_changed)
        self._task = asyncio.create_task(self._keep(), name=f"registration of {self._bookie_id}")
        await self._there.wait()

    def set_readonly(self, is_readonly: bool) -> None:
        """Move between the writable and the read-only bookies."""
        if is_readonly != self._is_readonly:
            self._is_readonly = is_readonly
            self._wanted.set()

    async def close(self) -> None:
        """A clean end: the znode goes at once."""
        self.die()
        await self._znodes.close()

    def pause(self) -> None:
        """The process is stopped, so the session hears nothing of it."""
        self._znodes.freeze()

    def resume(self) -> None:
        """The process goes on, maybe to find that its session is over."""
        self._znodes.thaw()

    def die(self) -> None:
        """The process is gone: the znode goes when the session expires."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._there.set()
        self._znodes.abandon()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._wanted.set()

    async def _keep(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._znodes.start()
                await self._register()
            except BookKeeperError:
                await asyncio.sleep(_RETRY_S)
                self._wanted.set()

    async def _register(self) -> None:
        available, readonly = f"{self._root}/available", f"{self._root}/available/readonly"
        now = (self._znodes.session, self._is_readonly)
        if now == self._registered:
            return
        with suppress(NodeExistsError):
            await self._znodes.create(f"{self._root}/cookies/{self._bookie_id}", b"5\n")
        self._registered = None  # until it is told that all of what follows was done
        here, there = (readonly, available) if self._is_readonly else (available, readonly)
        # An old znode of a session that has not expired yet would take this one with it.
        for path in (f"{there}/{self._bookie_id}", f"{here}/{self._bookie_id}"):
            try:
                await self._znodes.delete(path)
            except NoNodeError:
                continue
        try:
            await self._znodes.create(f"{here}/{self._bookie_id}", ephemeral=True)
        except NodeExistsError:
            self._wanted.set()
            return
        self._registered = now
        self._there.set()
