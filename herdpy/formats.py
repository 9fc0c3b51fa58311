"""Every format that outlives a process or passes between two: which versions are read, which is written.

A leaf that imports nothing of HerdPy; each format's own module has the number, and tests/upgrades compares
the two and docs/upgrades.md with this list. A version that is not read is refused before anything changes.

The **level** says what may be written where servers of several versions share data. It belongs to a cluster
(the znode ``level``) or to a directory (the marker ``HERDPY``), and an operator raises it once every server
runs the new version. What an older version cannot read is written only at a level that it does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

LEVELS: Mapping[int, str] = MappingProxyType({1: "0.1", 2: "0.2"})
"""The first version that has each level."""
NEWEST_LEVEL = max(LEVELS)
PARTITIONS_LEVEL = 2
"""From here on tables may be partitioned; an older version would take such a table for an empty one."""
TIME_PRECISION_LEVEL = 2
"""From here on columns may be TIMESTAMP(3) and the like; an older version would not round what it writes."""
TYPES_LEVEL = 2
"""From here on columns may be of INET, CIDR, MACADDR8, BIT and BIT VARYING."""
DEFERRABLE_UNIQUE_LEVEL = 2
"""From here on PRIMARY KEY and UNIQUE may be DEFERRABLE; an older version would not hold them."""
NOTIFY_LEVEL = 2
"""From here on the log may have notifications (records of type 26)."""
FUNCTIONS_LEVEL = 2
"""From here on the catalog may have functions (objects of the kind "function")."""
LEVEL_HINT = (
    f"Use the HerdPy that wrote it, or a newer one: this one knows level {NEWEST_LEVEL} (docs/upgrades.md)."
)


class StoredFormat(NamedTuple):
    """One format.

    Attributes:
        name: as docs/upgrades.md calls it.
        where: where its version stands.
        reads: the versions that this HerdPy reads.
        writes: the one that it writes, at its newest level.
        constant: the number in the code, ``module:NAME``; empty: it is part of the name of something.
        unknown: what becomes of a version that is not read.
    """

    name: str
    where: str
    reads: tuple[int, ...]
    writes: int
    constant: str
    unknown: str = "refused, 0A000"

    @property
    def key(self) -> str:
        """The name as a key of JSON."""
        return self.name.replace(" ", "_")


_REPLICA = "the replica stops, and says so"

FORMATS: tuple[StoredFormat, ...] = (
    StoredFormat("directory", "`format` in `HERDPY`", (1, 2), 2, "herdpy.formats:NEWEST_LEVEL"),
    StoredFormat(
        "roles of a directory", "`format` in `users.json`", (1,), 1, "herdpy_server.roles.role:FORMAT"
    ),
    StoredFormat(
        "node of a cluster", "`format` in `NODE`", (1,), 1, "herdpy_server.process.member:ID_FORMAT"
    ),
    StoredFormat(
        "session of a node",
        "`format` in `SESSION`",
        (1,),
        1,
        "herdpy_server.supervisor.former:FORMAT",
        "passed over: the session expires",
    ),
    StoredFormat("store", "`format` in the database `meta`", (1,), 1, "herdpy_server.store.disk:FORMAT"),
    StoredFormat(
        "file of columns",
        "the digit in `HPCOLS1`",
        (1,),
        1,
        "",
        "made anew from the rows",
    ),
    StoredFormat("ledger list", "the first line of `ledgers`", (1,), 1, "herdpy.log.ledger_list:VERSION"),
    StoredFormat("ledger file", "bytes 8 and 9", (1,), 1, "herdpy.log.file_ledger:VERSION"),
    StoredFormat("entry", "byte 4", (1,), 1, "herdpy.log.entry:VERSION", f"refused, 0A000; {_REPLICA}"),
    StoredFormat(
        "record",
        "type and version of its frame",
        (1,),
        1,
        "herdpy.log.records:LAYOUT_VERSION",
        f"refused, 0A000; {_REPLICA}",
    ),
    StoredFormat(
        "ledger list in ZooKeeper",
        "`format`; 2: with chunks",
        (1, 2),
        2,
        "herdpy.log.bookkeeper.znode_list:CHUNKED",
        _REPLICA,
    ),
    StoredFormat(
        "level of a cluster", "`level` in the znode `level`", (1, 2), 2, "herdpy.formats:NEWEST_LEVEL"
    ),
    StoredFormat(
        "tablespace in ZooKeeper",
        "`format`",
        (1, 2),
        2,
        "herdpy.formats:NEWEST_LEVEL",
        "the server has no replica of it, and says so",
    ),
    StoredFormat(
        "other records in ZooKeeper",
        "`format`",
        (1,),
        1,
        "herdpy_server.cluster.layout:FORMAT",
        "passed over, and logged",
    ),
    StoredFormat(
        "published snapshot", "`format` in `manifest.json`", (1,), 1, "herdpy.log.published.manifest:FORMAT"
    ),
    StoredFormat(
        "repository of backups", "`format` in `repository`", (1,), 1, "herdpy.backup.repository:FORMAT"
    ),
    StoredFormat("manifest of a backup", "`format`", (1,), 1, "herdpy.backup.manifest:FORMAT"),
    StoredFormat("part of a backup", "byte 4", (1,), 1, "herdpy.backup.part:VERSION"),
    StoredFormat(
        "restored database", "`format` in `RESTORED`", (1,), 1, "herdpy_server.backup.timeline:FORMAT"
    ),
    StoredFormat(
        "manifest of an export",
        "`format`; 2: with partitions",
        (1, 2),
        2,
        "herdpy_spark.jobs.exporting.generations:PARTITIONED_FORMAT",
        "refused",
    ),
    StoredFormat(
        "cluster of herdpy dev",
        "`format` in `cluster.json`",
        (1,),
        1,
        "herdpy.dev.directory:FORMAT",
        "refused",
    ),
    StoredFormat(
        "history of a drill",
        "the first line of `history.jsonl`",
        (1,),
        1,
        "herdpy.drill.history:FORMAT",
        "refused",
    ),
    StoredFormat("report of a drill", "`format`", (1,), 1, "herdpy.drill.report:FORMAT", "refused"),
    StoredFormat("gRPC", "`v1` in the package's name", (1,), 1, "", "UNIMPLEMENTED"),
    StoredFormat(
        "reports of the log", "the low half of the code 0x48440001", (1,), 1, "", "the connection ends"
    ),
    StoredFormat("PostgreSQL's protocol", "StartupMessage", (3,), 3, "", "negotiated, or refused, 0A000"),
)


def levels_text(level: int) -> str:
    """A level in words, such as ``2 (0.2)``."""
    return f"{level} ({LEVELS.get(level, 'a newer HerdPy')})"
