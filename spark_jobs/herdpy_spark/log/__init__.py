"""Reading a tablespace from its log: from published snapshots and from ledgers, without any server.

Above ``herdpy.log.detached``, which has the ledgers. From the bottom: ``entries``, what is in them and where
transactions end; ``history``, what became of tables in a stretch of it; ``plan``, a read of a table at one
LSN; ``partition``, the snapshot's rows and what the log changed since.
"""

from herdpy.log.detached import LogAddress
from herdpy_spark.log.entries import (
    LogBounds,
    TransactionsAtEntry,
    advance,
    bounds,
    end,
    entries,
    position_at,
)
from herdpy_spark.log.partition import read_partition
from herdpy_spark.log.plan import (
    LogPlan,
    NoSuchPositionError,
    NoSuchTableError,
    PartitionedTableError,
    plan_table,
    plan_tables,
)

__all__ = [
    "LogAddress",
    "LogBounds",
    "LogPlan",
    "NoSuchPositionError",
    "NoSuchTableError",
    "PartitionedTableError",
    "TransactionsAtEntry",
    "advance",
    "bounds",
    "end",
    "entries",
    "plan_table",
    "plan_tables",
    "position_at",
    "read_partition",
]
