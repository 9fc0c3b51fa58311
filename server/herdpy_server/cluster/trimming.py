"""How far a log may be trimmed: a pure function of who needs what.

Below ``positions``, which reads it from ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from herdpy.log.lsn import LSN
from herdpy_server.cluster.layout import PositionRecord, ReaderRecord


def trim_floor(
    checkpoint: LSN,
    replicas: Collection[str],
    present: Collection[str],
    positions: Mapping[str, PositionRecord],
    readers: Iterable[ReaderRecord],
    *,
    retention_s: float,
    now_us: int,
) -> LSN:
    """The last entry that nobody needs: the ledgers that end at it or before it may go.

    It is not past the leader's durable checkpoint; nor past the durable position of any replica of the
    tablespace that is there or was within the retention window; nor past the position of a reader whose lease
    has not expired. A replica that has not told a position yet, or that was away for longer, is seeded from
    another's snapshot; the seeding holds a lease as a reader. Evidence does not follow the log.

    Args:
        checkpoint: the leader's: all up to it is durable in its store.
        replicas: the nodes that have a replica (``TablespaceInfo.replicas``).
        present: those of them that are there now, however long ago they told a position.
        retention_s: the window, in seconds.
        now_us: the leader's clock. A position told "in the future" by another's is within the window.
    """
    needed = [checkpoint]
    for node, position in positions.items():
        if node not in replicas or position.kept:
            continue
        if node in present or now_us - position.seen_us <= retention_s * 1e6:
            needed.append(position.durable)
    needed.extend(one.lsn for one in readers if one.entries and one.expires_us > now_us)
    return min(needed)
