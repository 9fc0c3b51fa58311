"""Bulk loads that many writers stage, and one transaction publishes: all rows or none, and never twice.

load        what a load is, and the modes
plan        what its writers are to stage: columns, types, defaults
source      where its rows come from
rows        from staged batches to rows as they are kept, or the error that names the row
effects     what rows do to the table in each mode, and what the log has to say of them
pace        how many rows at a time
beginning   begins a load, gives one up, and tells what became of one
publishing  the transaction
files       parts that are staged on this server's disk
ledgers     parts that are staged in BookKeeper, and how those go that nobody published
directory   the same for a database in this process

Stands on ``sessions``: a load is a transaction like a statement's, with its locks and its checks. It knows
nothing of gRPC; ``service.loads`` brings it to the network.
"""

from herdpy_server.loading.beginning import begin_load, find_load, give_up, may_load
from herdpy_server.loading.load import BulkLoad, LoadMode, check_id
from herdpy_server.loading.plan import StagingPlan
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
