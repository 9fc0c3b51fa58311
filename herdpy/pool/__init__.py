"""Pools of connections: ``herdpy.Pool`` for threads; ``herdpy.aio.AsyncPool``, for tasks, has the same rules.

    core      who gets which connection, which are lent; the settings, errors and ends of both kinds
    sync      the pool for threads

Layer: on top of ``herdpy.dbapi``. Why it is our own: docs/decisions/15.
"""

from herdpy.pool.core import PoolClosed, PoolStats, PoolTimeout
from herdpy.pool.sync import Pool

__all__ = ["Pool", "PoolClosed", "PoolStats", "PoolTimeout"]
