"""The sections on being a member of a cluster: the cluster and its tablespaces, and the way to ZooKeeper.

Beside ``sections``, which puts them into the configuration, and says how sections are written.
"""

from __future__ import annotations

from typing import Annotated

from herdpy_server.config.section import DAY_S, TIB, Section, says, seconds, whole


class ClusterSection(Section, frozen=True, kw_only=True):
    """Several servers that replicate tablespaces over BookKeeper. Off until ZooKeeper is named."""

    zookeeper: Annotated[
        str, says('ZooKeeper\'s servers, "host:port,host:port"; empty: this server is alone.')
    ] = ""
    root: Annotated[str, says("Under which path of ZooKeeper this cluster is.")] = "/herdpy"
    ledgers_root: Annotated[str, says("Where BookKeeper has its metadata in ZooKeeper.")] = "/ledgers"
    node: Annotated[
        str,
        says("This node's id, unlike every other's; empty: one that the data directory keeps."),
    ] = ""
    advertise: Annotated[
        str,
        says("The name or address by which others reach this server; empty: the first that it listens on."),
    ] = ""
    session_timeout_s: Annotated[
        float,
        seconds(0.1, 600.0, "Others take over from a node that ZooKeeper has not heard for so long."),
    ] = 1.0
    lease_s: Annotated[
        float,
        seconds(0.05, 60.0, "A leader answers reads for so long after ZooKeeper confirmed that it leads."),
    ] = 0.4
    user: Annotated[
        str,
        says(
            "As which role this node asks others for snapshots: one with REPLICATION there; empty: as a node,"
            " by the secret that all nodes share."
        ),
    ] = ""
    password_file: Annotated[
        str, says("A file with that role's password in its first line; empty: none is shown.")
    ] = ""
    secret_file: Annotated[
        str,
        says(
            "A file with that secret in its first line, the same for all nodes; empty: the first node makes"
            " one and keeps it in ZooKeeper."
        ),
    ] = ""
    ca: Annotated[
        str,
        says(
            "A PEM file with those that signed the nodes' certificates, used when tls.certificate is given;"
            " empty: those that this machine knows."
        ),
    ] = ""
    replace_after_s: Annotated[
        float,
        seconds(
            1.0, 365 * DAY_S, "Replicas on a node that has been away for so long are made anew on another."
        ),
    ] = 600.0
    least_free_bytes: Annotated[
        int,
        whole(
            0,
            TIB,
            "With less than that free on the disk of its data directory a node has other replicas lead, where"
            " some can. 0: it does not look.",
        ),
    ] = 256 << 20
    tablespace: Annotated[str, says("The tablespace that the first start makes.")] = "herdpy"
    expected_replicas: Annotated[int, whole(1, 100, "How many replicas a new tablespace gets.")] = 3
    ensemble: Annotated[
        int, whole(1, 100, "How many bookies a ledger of a new tablespace is spread over.")
    ] = 3
    write_quorum: Annotated[int, whole(1, 100, "How many bookies get each entry.")] = 3
    ack_quorum: Annotated[int, whole(1, 100, "How many must have it before a commit is acknowledged.")] = 2


class ZookeeperSection(Section, frozen=True, kw_only=True):
    """How ZooKeeper is reached, where cluster.zookeeper names it. In the clear until tls is set."""

    tls: Annotated[bool, says("Its servers speak TLS, on the ports that cluster.zookeeper names.")] = False
    ca: Annotated[
        str,
        says("A PEM file with those that signed their certificates; empty: those that this machine knows."),
    ] = ""
    certificate: Annotated[
        str, says("A PEM file with the certificate that is shown to them; empty: none is.")
    ] = ""
    key: Annotated[str, says("A PEM file with its key, without a password; readable by the server only.")] = (
        ""
    )
    check_hostname: Annotated[
        bool, says("Their certificates must have the names that cluster.zookeeper has.")
    ] = True
