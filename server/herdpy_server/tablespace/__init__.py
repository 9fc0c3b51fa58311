"""The state machine of a tablespace: recovery, leading, checkpoints, locks, transactions."""

from herdpy_server.tablespace.checkpointer import Checkpointer
from herdpy_server.tablespace.directory import Directory, DirectoryLock, open_log, open_store
from herdpy_server.tablespace.locks import LockTable, LockWait
from herdpy_server.tablespace.log_errors import sql_error, store_error
from herdpy_server.tablespace.tablespace import (
    DuplicateRequestError,
    Isolation,
    Recovery,
    Requests,
    Tablespace,
    Transaction,
    lost,
    now_us,
)

__all__ = [
    "Checkpointer",
    "Directory",
    "DirectoryLock",
    "DuplicateRequestError",
    "Isolation",
    "LockTable",
    "LockWait",
    "Recovery",
    "Requests",
    "Tablespace",
    "Transaction",
    "lost",
    "now_us",
    "open_log",
    "open_store",
    "sql_error",
    "store_error",
]
