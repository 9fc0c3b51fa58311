"""The state of one tablespace: LMDB underneath, memory on top. DESIGN.md says why."""

from herdpy_server.store.check import Finding
from herdpy_server.store.copy import verify_copy
from herdpy_server.store.disk import ApplyError, StoreDamagedError
from herdpy_server.store.layers import Layer
from herdpy_server.store.locks import Locks, NoLocks
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.store import Store
from herdpy_server.store.transaction_state import Mark
from herdpy_server.store.workspace import Workspace

__all__ = [
    "ApplyError",
    "Finding",
    "Layer",
    "Locks",
    "Mark",
    "NoLocks",
    "Store",
    "StoreDamagedError",
    "StoreSnapshot",
    "Workspace",
    "verify_copy",
]
