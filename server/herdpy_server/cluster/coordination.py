"""One node's part in a cluster, as far as ZooKeeper carries it: everything of this package, made together.

The top of the package. A node makes one of these over its BookKeeper client's session; replicas get their
elections and reports from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes
from herdpy_server.cluster.election import GRACE_S, Candidate, Election, Ground
from herdpy_server.cluster.errors import ClusterError, MalformedMetadataError, NewerClusterError
from herdpy_server.cluster.layout import Layout, LevelRecord, NodeRecord, decode
from herdpy_server.cluster.lease import Clock, Renewal, boottime
from herdpy_server.cluster.level import FIRST, check_known, join_level
from herdpy_server.cluster.membership import Membership
from herdpy_server.cluster.positions import Reports
from herdpy_server.cluster.session import ZooKeeperSession
from herdpy_server.cluster.tablespaces import TablespaceInfo, Tablespaces

_ATTEMPTS = 16  # at a time: a node that led hundreds of tablespaces may be gone


class Coordination:
    """Attributes:
    layout, session, membership, tablespaces: see their modules.
    level: what this cluster's servers may write, as last heard (``level``).
    """

    def __init__(
        self,
        znodes: Znodes,
        root: str,
        own: NodeRecord,
        *,
        lease_s: float,
        refused: Callable[[ClusterError], None],
        clock: Clock = boottime,
    ) -> None:
        """To be made on the loop, over a started ``Znodes``.

        Args:
            own: what this node registers; ``own.sql`` and ``own.grpc`` are published with each election.
            refused: another process took this node's id, or the cluster's level rose above what is known
                here: this one must end.
        """
        self.znodes = znodes
        self.layout = Layout(root)
        self.session = ZooKeeperSession(znodes)
        self.renewal = Renewal(znodes, self.session, self.layout, own.node, lease_s, clock)
        self.membership = Membership(znodes, self.session, self.layout, own, refused=refused, clock=clock)
        self.tablespaces = Tablespaces(znodes, self.layout)
        self.level = FIRST
        self._own = own
        self._refused = refused
        self._watch: Watch | None = None
        self._ground = Ground(
            znodes,
            self.session,
            self.renewal,
            self.layout,
            own.node,
            own.instance,
            asyncio.Semaphore(_ATTEMPTS),
            own.sql,
            own.grpc,
        )

    async def start(self) -> None:
        """Register this node, and learn of the others.

        Raises:
            NewerClusterError: the cluster's level is not known here; nothing was changed.
            NodeIdInUseError, BookKeeperError: as ``Membership.start``.
        """
        self.level = await join_level(self.znodes, self.layout, self._own.node)
        self._watch = self.znodes.watch_data(self.layout.level, self._level_changed)
        await self.membership.start()

    def _level_changed(self, znode: Znode | None) -> None:
        if znode is None:
            return
        try:
            self.level = decode(LevelRecord, self.layout.level, znode.data).level
            check_known(self.level)
        except (MalformedMetadataError, NewerClusterError) as error:
            self._refused(error)

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
        if self._watch is not None:
            self._watch.cancel()
        self.tablespaces.close()
        await self.membership.close()
        await self.renewal.close()
        self.session.close()
