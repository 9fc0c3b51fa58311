"""One node's part in a cluster, as far as ZooKeeper carries it: everything of this package, made together.

The top of the package. A node makes one of these over its BookKeeper client's session; replicas get their
elections and reports from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy_server.cluster.election import GRACE_S, Candidate, Election, Ground
from herdpy_server.cluster.errors import NodeIdInUseError
from herdpy_server.cluster.layout import Layout, NodeRecord
from herdpy_server.cluster.lease import Clock, Renewal, boottime
from herdpy_server.cluster.membership import Membership
from herdpy_server.cluster.positions import Reports
from herdpy_server.cluster.session import ZooKeeperSession
from herdpy_server.cluster.tablespaces import TablespaceInfo, Tablespaces

_ATTEMPTS = 16  # at a time: a node that led hundreds of tablespaces may be gone


class Coordination:
    """Attributes:
    layout, session, membership, tablespaces: see their modules.
    """

    def __init__(
        self,
        znodes: Znodes,
        root: str,
        own: NodeRecord,
        *,
        lease_s: float,
        refused: Callable[[NodeIdInUseError], None],
        clock: Clock = boottime,
    ) -> None:
        """To be made on the loop, over a started ``Znodes``.

        Args:
            own: what this node registers; ``own.sql`` and ``own.grpc`` are published with each election.
            refused: another process took this node's id: this one must end.
        """
        self.znodes = znodes
        self.layout = Layout(root)
        self.session = ZooKeeperSession(znodes)
        self.renewal = Renewal(znodes, self.session, self.layout, own.node, lease_s, clock)
        self.membership = Membership(znodes, self.session, self.layout, own, refused=refused, clock=clock)
        self.tablespaces = Tablespaces(znodes, self.layout)
        self._own = own
        self._ground = Ground(
            znodes,
            self.session,
            self.renewal,
            own.node,
            asyncio.Semaphore(_ATTEMPTS),
            own.sql,
            own.grpc,
        )

    async def start(self) -> None:
        """Register this node, and learn of the others. Raises NodeIdInUseError, BookKeeperError."""
        await self.membership.start()

    def election(self, info: TablespaceInfo, candidate: Candidate, *, grace_s: float = GRACE_S) -> Election:
        """This node's part in the election of a tablespace; to be started and closed by the caller."""
        paths = self.layout.tablespace(info.name)
        return Election(self._ground, paths, candidate, preferred=info.leader, grace_s=grace_s)

    def reports(self, name: str) -> Reports:
        """The reports of this node's replica; to be started and closed by the caller."""
        paths = self.layout.tablespace(name)
        return Reports(self.znodes, self.session, paths, self._own.node, self._own.instance)

    async def close(self) -> None:
        """Leave. The elections and reports have been closed before; ``znodes`` is the caller's to close."""
        self.tablespaces.close()
        await self.membership.close()
        await self.renewal.close()
        self.session.close()
