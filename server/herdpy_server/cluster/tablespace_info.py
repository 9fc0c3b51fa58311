"""What a tablespace is to be: its replicas, its quorums, what is kept of its log and of its snapshots.

Beside ``layout``, whose records are alike; ``tablespaces`` keeps it in a znode. What makes no sense is an
``SqlError``, because a statement asked for it.
"""

from __future__ import annotations

from herdpy_server.cluster.layout import Record
from herdpy_server.cluster.names import NAME, NODE_ID
from herdpy_sql.errors import SqlError

MAX_REPLICAS = 100
MAX_SNAPSHOTS = 1000

_MAX_RETENTION_BYTES = 1 << 60
_MAX_RETENTION_S = 10 * 366 * 86_400.0


class TablespaceInfo(Record, frozen=True, kw_only=True):
    """One tablespace.

    Attributes:
        uuid: tells it from another of the same name, before or after.
        replicas: the nodes that have one, or are to get one.
        leader: the node that leads when it can, or None.
        ensemble, write_quorum, ack_quorum: of its ledgers.
        strict: whether a ledger with fewer bookies than that is refused.
        retention_bytes: of closed ledgers that are kept although nobody needs them.
        retention_s: for how long the log is kept for a replica that is away.
        snapshot_url: where snapshots are published for readers of the log; empty: nowhere.
        snapshot_interval_s: how often.
        snapshot_keep: how many of the newest stay.
        snapshot_history_s: moments of so long ago stay readable.
        dropped: it is being removed; nobody may open it.
    """

    name: str
    uuid: str
    replicas: tuple[str, ...] = ()
    expected_replicas: int = 3
    leader: str | None = None
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    strict: bool = False
    retention_bytes: int = 256 << 20
    retention_s: float = 86_400.0
    snapshot_url: str = ""
    snapshot_interval_s: float = 3600.0
    snapshot_keep: int = 2
    snapshot_history_s: float = 0.0
    created_us: int = 0
    dropped: bool = False


def validate(info: TablespaceInfo) -> TablespaceInfo:
    """The same, if it makes sense. Raises SqlError 42602 (names), 22023 (values)."""
    if not NAME.fullmatch(info.name):
        raise SqlError(
            "42602",
            f'"{info.name}" is no name of a tablespace',
            hint="Letters, digits, _ and -, at most 63, beginning with a letter or _.",
        )
    for node in (*info.replicas, *([info.leader] if info.leader is not None else [])):
        if not NODE_ID.fullmatch(node):
            raise SqlError("42602", f'"{node}" is no id of a node')
    problem = _problem(info)
    if problem:
        raise SqlError("22023", problem)
    return info


def _problem(info: TablespaceInfo) -> str | None:
    if not 1 <= info.ack_quorum <= info.write_quorum <= info.ensemble <= MAX_REPLICAS:
        return (
            f"1 <= ack quorum <= write quorum <= ensemble <= {MAX_REPLICAS} must hold, and they are "
            f"{info.ack_quorum}, {info.write_quorum} and {info.ensemble}"
        )
    if not 1 <= info.expected_replicas <= MAX_REPLICAS:
        return f"there must be 1 to {MAX_REPLICAS} expected replicas, not {info.expected_replicas}"
    if len(set(info.replicas)) != len(info.replicas):
        return "a node is named twice among the replicas"
    if len(info.replicas) > MAX_REPLICAS:
        return f"there may be {MAX_REPLICAS} replicas at most"
    if info.leader is not None and info.leader not in info.replicas:
        return f'the leader "{info.leader}" is not one of the replicas'
    if not 0 <= info.retention_bytes <= _MAX_RETENTION_BYTES:
        return f"the retention must be from 0 to {_MAX_RETENTION_BYTES} bytes, not {info.retention_bytes}"
    if not 0 <= info.retention_s <= _MAX_RETENTION_S:
        return f"the retention must be from 0 to {_MAX_RETENTION_S:.0f} seconds, not {info.retention_s}"
    if not 1 <= info.snapshot_interval_s <= _MAX_RETENTION_S:
        return (
            f"snapshots may be published every 1 to {_MAX_RETENTION_S:.0f} seconds, "
            f"not every {info.snapshot_interval_s:g}"
        )
    if not 1 <= info.snapshot_keep <= MAX_SNAPSHOTS:
        return f"1 to {MAX_SNAPSHOTS} published snapshots may stay, not {info.snapshot_keep}"
    if not 0 <= info.snapshot_history_s <= _MAX_RETENTION_S:
        return (
            f"the history of snapshots must be from 0 to {_MAX_RETENTION_S:.0f} seconds, "
            f"not {info.snapshot_history_s:g}"
        )
    return None
