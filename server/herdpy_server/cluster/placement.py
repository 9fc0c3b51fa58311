"""Which nodes get a tablespace's replicas, and which of them leads: pure functions.

The leader of a tablespace calls these for its own tablespace, since exactly one node does so and it knows
best, and writes the result by compare-and-set. ``CREATE TABLESPACE`` uses them for the first choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_sql.errors import SqlError

MOST_REPLICAS = 800
"""On a node: its address space has room for about 900 stores (``store.limits``)."""


def choose_replicas(
    current: Sequence[str],
    expected: int,
    away_s: Mapping[str, float],
    loads: Mapping[str, int],
    *,
    replace_after_s: float,
    keep: Iterable[str] = (),
) -> tuple[str, ...]:
    """The nodes that are to have a replica, those that stay first and in their order.

    No more than ``expected``. A replica moves only when it must: one whose node has been away for longer than
    ``replace_after_s`` is replaced when another node is there to take its place, and kept otherwise, since it
    may come back. When there are too many, those longest away go first, then those on the busiest nodes.
    A node that has MOST_REPLICAS gets no other.

    Args:
        current: the nodes that have one now.
        expected: how many there are to be.
        away_s: for how long each node has been away: 0 for those that are there, which may be chosen.
            A node that is not named has been away for ever.
        loads: how many replicas each node has.
        keep: nodes that keep theirs whatever happens (the leader's).
    """
    kept = set(keep)

    def worth(node: str) -> tuple[bool, float, int, str]:
        """The smallest stays."""
        return (node not in kept, away_s.get(node, float("inf")), loads.get(node, 0), node)

    staying = set(sorted(dict.fromkeys(current), key=worth)[: max(expected, 0)])
    free = sorted(
        (
            node
            for node, away in away_s.items()
            if away == 0 and node not in current and loads.get(node, 0) < MOST_REPLICAS
        ),
        key=lambda node: (loads.get(node, 0), node),
    )
    added: list[str] = []
    while free and len(staying) + len(added) < expected:
        added.append(free.pop(0))
    lost = sorted(
        (node for node in staying if node not in kept and away_s.get(node, float("inf")) > replace_after_s),
        key=worth,
        reverse=True,
    )
    for node in lost:
        if not free:
            break
        staying.discard(node)
        added.append(free.pop(0))
    return (*(node for node in dict.fromkeys(current) if node in staying), *added)


def choose_leader(
    replicas: Sequence[str], present: Iterable[str], leads: Mapping[str, int], current: str | None = None
) -> str | None:
    """Who is to lead: who does now or is preferred, if it has a replica; else, of the replicas on nodes that
    are there, the one that leads least; None when none is there.
    """
    if current is not None and current in replicas:
        return current
    there = set(present)
    able = [node for node in replicas if node in there]
    return min(able, key=lambda node: (leads.get(node, 0), replicas.index(node)), default=None)


def loads_of(tablespaces: Iterable[TablespaceInfo]) -> dict[str, int]:
    """How many replicas each node has, of the tablespaces that are not dropped."""
    loads: dict[str, int] = {}
    for info in tablespaces:
        if not info.dropped:
            for node in info.replicas:
                loads[node] = loads.get(node, 0) + 1
    return loads


def leads_of(tablespaces: Iterable[TablespaceInfo]) -> dict[str, int]:
    """How many tablespaces each node is the preferred leader of."""
    leads: dict[str, int] = {}
    for info in tablespaces:
        if not info.dropped and info.leader is not None:
            leads[info.leader] = leads.get(info.leader, 0) + 1
    return leads


def check_room(nodes: Iterable[str], infos: Iterable[TablespaceInfo]) -> None:
    """See that nodes can take another replica.

    Raises:
        SqlError: 53400, one has as many as it can have.
    """
    loads = loads_of(infos)
    for node in nodes:
        if loads.get(node, 0) >= MOST_REPLICAS:
            raise SqlError(
                "53400",
                f'node "{node}" has {loads[node]} replicas, and no room for more',
                hint="Add a node, or name others.",
            )


def place(
    info: TablespaceInfo, away_s: Mapping[str, float], others: Iterable[TablespaceInfo]
) -> tuple[tuple[str, ...], str | None]:
    """The first replicas and the preferred leader of a tablespace that is about to be made.

    What ``info`` names already stays. The leader is the node that leads fewest of ``others``, and so leaders
    spread although replicas alone would fit on the same nodes.
    """
    others = tuple(others)
    loads, leads = loads_of(others), leads_of(others)
    weights = {node: loads.get(node, 0) for node in away_s}
    named = (info.leader, *info.replicas) if info.leader is not None else info.replicas
    current = list(dict.fromkeys(named))
    if not current:
        # The first choice is the leader's: the node that leads least, then that has least.
        there = [node for node, away in away_s.items() if away == 0 and loads.get(node, 0) < MOST_REPLICAS]
        first = min(there, key=lambda node: (leads.get(node, 0), loads.get(node, 0), node), default=None)
        current = [] if first is None else [first]
    replicas = choose_replicas(
        current,
        max(info.expected_replicas, len(current)),
        away_s,
        weights,
        replace_after_s=float("inf"),
        keep=current,
    )
    there = [node for node in replicas if away_s.get(node, float("inf")) == 0]
    return replicas, choose_leader(replicas, there, leads, info.leader)


def hands_over_to(info: TablespaceInfo, leader: str, able: Iterable[str]) -> str | None:
    """Whom the present leader should make way for: the preferred one, when it is another and able to lead.

    Args:
        able: nodes whose replica is there, follows closely and may lead.
    """
    preferred = info.leader
    return preferred if preferred not in (None, leader) and preferred in set(able) else None
