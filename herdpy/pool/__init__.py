"""Pools of connections: ``herdpy.Pool`` for threads; ``herdpy.aio.AsyncPool``, for tasks, has the same rules.

    core        who gets which connection; no waiting, no I/O
    settings    what was asked for, and what both kinds say alike
    ending      how pools end, and what they say of themselves
    sync        the pool for threads; keeper is its one thread

Layer: on top of ``herdpy.dbapi``. Why it is our own: docs/decisions/15.
"""

from herdpy.pool.core import PoolStats
from herdpy.pool.settings import PoolClosed, PoolTimeout
from herdpy.pool.sync import Pool

__all__ = ["Pool", "PoolClosed", "PoolStats", "PoolTimeout"]
