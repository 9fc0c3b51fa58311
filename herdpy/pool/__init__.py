"""Pools of connections: ``herdpy.Pool`` for threads; ``herdpy.aio.AsyncPool``, for tasks, has the same rules.

    core      who gets which connection, and which are lent; no waiting, no I/O
    common    what was asked for, what both kinds say alike, and how they end
    sync      the pool for threads

Layer: on top of ``herdpy.dbapi``. Why it is our own: docs/decisions/15.
"""

from herdpy.pool.common import PoolClosed, PoolTimeout
from herdpy.pool.core import PoolStats
from herdpy.pool.sync import Pool

__all__ = ["Pool", "PoolClosed", "PoolStats", "PoolTimeout"]
