"""A model ZooKeeper: one tree, sessions that expire, and who is to hear of a change.

It is the host "zookeeper" of the simulated network: a client cut off from it loses first its connection,
then its session. Sessions are kept by the heartbeats of `ModelZnodes`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from herdpy.testing.model.links import Links
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.znode_tree import ZnodeTree

if TYPE_CHECKING:
    from herdpy.testing.model.znodes import ModelZnodes

ZOOKEEPER = "zookeeper"


class ModelZooKeeper:
    """The server. `lost_request_share` and `lost_reply_share` are the shares of requests whose connection
    breaks before they take effect, and after."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, links: Links) -> None:
        self.loop = loop
        self.rng = rng
        self.links = links
        self.lost_request_share = 0.0
        self.lost_reply_share = 0.0
        self.clients: list[ModelZnodes] = []
        self.tree = ZnodeTree(self._data_changed, self._children_changed)
        self._next_session = 1
        self._heard_s: dict[int, float] = {}

    def now_ms(self) -> int:
        """Virtual time as znodes have it."""
        return 1_700_000_000_000 + int(self.loop.time() * 1000)

    def reaches(self, host: str) -> bool:
        """Whether a connection between the host and ZooKeeper works."""
        links = self.links
        return not (links.between(host, ZOOKEEPER).is_cut or links.between(ZOOKEEPER, host).is_cut)

    def new_session(self, timeout_s: float) -> int:
        """A session that ends when nothing is heard of it for `timeout_s`."""
        session = self._next_session
        self._next_session += 1
        self._heard_s[session] = self.loop.time()
        self.loop.call_later(timeout_s, self._look_at, session, timeout_s)
        return session

    def is_alive(self, session: int) -> bool:
        """Whether the session has neither expired nor been closed."""
        return session in self._heard_s

    def heartbeat(self, session: int) -> None:
        """The client lives."""
        if session in self._heard_s:
            self._heard_s[session] = self.loop.time()

    def end_session(self, session: int) -> None:
        """Closed or expired: its ephemeral znodes go."""
        if self._heard_s.pop(session, None) is not None:
            self.tree.delete_ephemerals(session)

    def _look_at(self, session: int, timeout_s: float) -> None:
        heard_s = self._heard_s.get(session)
        if heard_s is None:
            return
        if self.loop.time() >= heard_s + timeout_s:
            self.end_session(session)
        else:
            self.loop.call_at(heard_s + timeout_s, self._look_at, session, timeout_s)

    def _data_changed(self, path: str) -> None:
        for client in self.clients:
            client.changed(path, children=False)

    def _children_changed(self, path: str) -> None:
        for client in self.clients:
            client.changed(path, children=True)
