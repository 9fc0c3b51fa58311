"""Opening the log and the store of a directory, and deciding what to do about a damaged store.

The log is opened first: it says where it ends, and whether it reaches back to its beginning. A store
that cannot be trusted is set aside and filled anew from a whole log; where the log was trimmed, or
is behind the store, nothing can be made right, and opening is refused with what to do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

from herdpy.log import START, FileLog, LogError, LogSettings
from herdpy.log.commit_log import Acknowledge
from herdpy_server.store import Store, StoreDamagedError
from herdpy_server.tablespace.directory import Directory
from herdpy_server.tablespace.log_errors import sql_error
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.opening")

_RESTORE = "Restore the directory from a copy."


def open_log(
    directory: Directory,
    settings: LogSettings,
    acknowledge: Acknowledge,
    loop: asyncio.AbstractEventLoop | None = None,
) -> FileLog:
    """The log of a directory, recovered. SqlError XX001 when it is damaged."""
    try:
        return FileLog.open(str(directory.log), acknowledge, settings=settings, loop=loop)
    except LogError as error:
        raise sql_error(error) from error


def open_store(directory: Directory, log: FileLog, column_cache_bytes: int) -> tuple[Store, str | None]:
    """The store of a directory, and why it has to be rebuilt from the log, if it has.

    Raises:
        SqlError: XX001, the store is damaged and the log cannot rebuild it, or the log lost entries
            that the store has.
    """
    try:
        store = Store.open(directory.store, column_cache_bytes=column_cache_bytes)
    except StoreDamagedError as error:
        reason = str(error)
    else:
        if store.durable <= log.lac:
            return store, None
        reason = f"the store is at {store.durable}, but the log ends at {log.lac}"
        store.close()
        raise SqlError("XX001", f"the log of {directory.path} lost entries: {reason}", hint=_RESTORE)
    if log.base != START:
        raise SqlError(
            "XX001",
            f"the store of {directory.path} is damaged: {reason}",
            detail="The log cannot rebuild it: its oldest ledgers were trimmed.",
            hint=_RESTORE,
        )
    aside = directory.store.with_name(f"store.damaged-{time.time_ns() // 1_000_000_000}")
    os.rename(directory.store, aside)
    logger.warning("the store was damaged (%s): set aside as %s, rebuilding from the log", reason, aside)
    return Store.open(directory.store, column_cache_bytes=column_cache_bytes), reason
