"""What a session may ask of the cluster that its tablespace is part of.

Beside ``tablespace``, which has one where it is a replica's, and none where it is alone. A node fulfils it
(``herdpy_server.replica``); sessions know nothing of ZooKeeper, nodes or elections, and only hand statements
and answers through. What takes time is a ``Wait``: the loop serves others meanwhile, and a statement that is
cancelled waits no more (what it has begun goes on).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from herdpy.log import LedgerInfo
from herdpy.log.wait import Wait
from herdpy_server.store.limits import Limit
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.object_commands import TablespaceCommand

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows of the tables of schema herdpy, by the table's name, each by its columns' names."""


class Remark(NamedTuple):
    """A message for a client besides its answer."""

    severity: str
    sqlstate: str
    text: str


class Checked(NamedTuple):
    """What comparing replicas came to.

    Attributes:
        rows: table or index, node, rows, checksum, whether that is as it should be.
    """

    rows: Sequence[tuple[str, str, int, str, bool]]
    remarks: Sequence[Remark]


class Cluster(Protocol):
    """One node, as sessions see it."""

    def change(self, command: TablespaceCommand, connected: str) -> Wait[Sequence[Remark]]:
        """Carry out CREATE, ALTER or DROP TABLESPACE for a session of tablespace ``connected``.

        Fails with SqlError: 42710, 42704, 42602, 22023 the statement; 55000, 55006, 53000 the cluster does
        not allow it now; 08001, 08007 ZooKeeper.
        """

    def check(self, tablespace: str) -> Wait[Checked]:
        """Compare the replicas of a tablespace that this node leads, and have those made anew that differ.

        Fails with SqlError: 3D000 there is no such tablespace; 25006 another node leads it; 55006 it is being
        checked; 08... the log or ZooKeeper.
        """

    def databases(self) -> Sequence[str]:
        """The names of the tablespaces, as last heard."""

    def facts(self) -> Wait[tuple[Facts, Remark | None]]:
        """What there is to be said of the cluster: as ZooKeeper says now, or, with a remark, as of when it
        was heard of last.
        """


def ledger_rows(tablespace: str, ledgers: Iterable[LedgerInfo]) -> list[dict[str, Any]]:
    """Rows of herdpy.ledgers."""
    return [
        {
            "tablespace": tablespace,
            "ledger_id": one.ledger_id,
            "state": "closed" if one.closed else "open",
            "entries": one.last_entry_id + 1 if one.closed else None,
            "length_bytes": one.length if one.closed else None,
            "epoch": one.epoch or None,
            "node": one.node or None,
            "created": one.created_us,
        }
        for one in ledgers
    ]


def limit_rows(tablespace: str, node: str | None, limits: Iterable[Limit]) -> list[dict[str, Any]]:
    """Rows of herdpy.limits."""
    return [
        {"tablespace": tablespace, "node": node, "is_near": one.is_near, **one._asdict()} for one in limits
    ]


def no_cluster() -> SqlError:
    """For statements about tablespaces where there are none."""
    return SqlError(
        "55000",
        "this database is not part of a cluster: there are no tablespaces to be made or changed",
        hint="Servers with cluster.zookeeper set form one; see docs/operations.md.",
    )
