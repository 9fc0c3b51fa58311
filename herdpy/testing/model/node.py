"""One bookie of a model cluster as a machine: a host with a process that crashes, pauses and comes back.

Joins what a bookie does (`ModelBookie`), where it listens (the simulated network) and how it is known
(`Registration`).
"""

from __future__ import annotations

import random
from contextlib import suppress

from herdpy.bookkeeper.metadata.znodes import NoNodeError
from herdpy.testing.model.bookie import ModelBookie
from herdpy.testing.model.network import SimulatedNetwork
from herdpy.testing.model.registration import Registration
from herdpy.testing.model.znodes import ModelZnodes
from herdpy.testing.model.zookeeper import ModelZooKeeper

PORT = 3181


class BookieNode:
    """A bookie on the host `host`, known as `bookie_id` (host:port)."""

    def __init__(
        self,
        network: SimulatedNetwork,
        zookeeper: ModelZooKeeper,
        host: str,
        *,
        root: str,
        rng: random.Random,
        sync_s: tuple[float, float],
        session_timeout_s: float,
    ) -> None:
        self.host = host
        self.bookie_id = f"{host}:{PORT}"
        self.bookie = ModelBookie(network.loop, rng, sync_s=sync_s)
        self._network = network
        self._zookeeper = zookeeper
        self._root = root
        self._session_timeout_s = session_timeout_s
        self._registration: Registration | None = None
        self._paused = False

    @property
    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._registration is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped (SIGSTOP)."""
        return self._paused

    def holds(self, ledger_id: int, entry_id: int) -> bool:
        """Whether the entry is on this bookie's disk, where a crash leaves it."""
        return self.bookie.storage.is_durable(ledger_id, entry_id)

    async def start(self) -> None:
        """Start the process, on what its disk holds; nothing when it runs."""
        if self._registration is not None:
            return
        znodes = ModelZnodes(self._zookeeper, self.host, timeout_s=self._session_timeout_s)
        self._registration = Registration(znodes, self._root, self.bookie_id)
        self._registration.set_readonly(self.bookie.is_readonly)
        self._network.listen(self.host, PORT, self.bookie.protocol)
        await self._registration.start()

    async def stop(self) -> None:
        """End the process in order: everything is synced, and the registration goes at once."""
        registration, self._registration = self._registration, None
        if registration is None:
            return
        self.resume()
        self._network.kill_host(self.host)
        self.bookie.shut_down()
        await registration.close()

    def crash(self) -> None:
        """The machine loses power: what was not synced is lost, the rest is there after `start`."""
        registration, self._registration = self._registration, None
        if registration is None:
            return
        registration.die()
        self._network.kill_host(self.host)
        self.bookie.crash()
        self._paused = False

    def pause(self) -> None:
        """Stop the process where it is: it takes bytes, and answers nothing."""
        if self._registration is not None and not self._paused:
            self._paused = True
            self.bookie.pause()
            self._registration.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        if self._paused:
            self._paused = False
            self.bookie.resume()
            if self._registration is not None:
                self._registration.resume()

    def wipe(self) -> None:
        """Empty the disk of a bookie that does not run, and its cookie: it comes back as a new one with the
        old id."""
        if self._registration is not None:
            raise RuntimeError(f"{self.bookie_id} runs")
        self.bookie.wipe()
        with suppress(NoNodeError):
            self._zookeeper.tree.delete(f"{self._root}/cookies/{self.bookie_id}")

    def set_readonly(self, is_readonly: bool) -> None:
        """Refuse writes, and say so in ZooKeeper."""
        self.bookie.is_readonly = is_readonly
        if self._registration is not None:
            self._registration.set_readonly(is_readonly)
