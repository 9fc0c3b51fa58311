"""Reading a tablespace from its log: from published snapshots and from ledgers, without any server.

From the bottom: ``address``, where a log is; ``loop``, ``bookies``, ``directory`` and ``ledgers``, its
ledgers of either kind; ``entries``, what is in them and where transactions end; ``shape``, a table's
columns and keys; ``history``, what became of tables in a stretch of the log; ``ranges`` and ``plan``, a
read of a table at one LSN; ``delta``, what the log changed; ``partition``, that over what it
did not change.
"""

from herdpy_spark.log.address import LogAddress
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
from herdpy_spark.log.plan import LogPlan, NoSuchPositionError, NoSuchTableError, plan_table, plan_tables

__all__ = [
    "LogAddress",
    "LogBounds",
    "LogPlan",
    "NoSuchPositionError",
    "NoSuchTableError",
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
