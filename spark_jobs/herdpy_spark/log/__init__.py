"""Reading a tablespace from its log: from published snapshots and from ledgers, without any server.

From the bottom: ``address``, where a log is; ``loop``, ``bookies``, ``directory`` and ``ledgers``, its
ledgers of either kind; ``entries``, what is in them and where transactions end.
"""

from herdpy_spark.log.address import LogAddress
from herdpy_spark.log.entries import LogBounds, LogEntry, advance, bounds, end, entries, position_at

__all__ = ["LogAddress", "LogBounds", "LogEntry", "advance", "bounds", "end", "entries", "position_at"]
