"""How a node finds its cluster, and what it makes tablespaces like where nothing else is said.

Made from the configuration by ``process.member``; used by ``node``.
"""

from __future__ import annotations

from dataclasses import dataclass

from herdpy_server.cluster.tablespace_info import TablespaceInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How a node finds its cluster, and what its tablespaces are made like.

    Attributes:
        zookeeper: its servers, "host:port,host:port".
        root, ledgers_root: under which znodes this cluster, and BookKeeper's metadata, are.
        session_timeout_s, lease_s, replace_after_s, least_free_bytes: see docs/operations.md.
        tablespace: the one that is made when there is none yet, with the counts that follow.
    """

    zookeeper: str
    root: str = "/herdpy"
    ledgers_root: str = "/ledgers"
    session_timeout_s: float = 1.0
    lease_s: float = 0.4
    replace_after_s: float = 600.0
    least_free_bytes: int = 256 << 20
    tablespace: str = "herdpy"
    expected_replicas: int = 3
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2

    def tablespace_defaults(self) -> TablespaceInfo:
        """A tablespace as it is where nothing else is said; with the name of the default one."""
        return TablespaceInfo(
            name=self.tablespace,
            uuid="",
            expected_replicas=self.expected_replicas,
            ensemble=self.ensemble,
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
        )
