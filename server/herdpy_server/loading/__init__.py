"""Bulk loads that many writers stage, and one transaction publishes: all rows or none, and never twice.

load        what a load is, what its writers are to stage, how it begins and is given up
rows        where its rows come from; to rows as they are kept, or the error that names the row
publishing  what rows do to the table in each mode, so many at a time, and the transaction
files       parts that are staged on this server's disk
ledgers     parts that are staged in BookKeeper, and how those go that nobody published
directory   the same for a database in this process

Stands on ``sessions``: a load is a transaction like a statement's, with its locks and its checks. It knows
nothing of gRPC; ``service.loads`` brings it to the network.
"""

from herdpy_server.loading.load import (
    BulkLoad,
    LoadMode,
    StagingPlan,
    begin_load,
    check_id,
    find_load,
    give_up,
    may_load,
)
from herdpy_server.loading.publishing import Publishing

__all__ = [
    "BulkLoad",
    "LoadMode",
    "Publishing",
    "StagingPlan",
    "begin_load",
    "check_id",
    "find_load",
    "give_up",
    "may_load",
]
