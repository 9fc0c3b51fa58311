"""A client's error when the log or the store fails: one SqlError for each of their errors."""

from __future__ import annotations

import errno
import os

import lmdb

from herdpy.log import (
    CorruptLedgerError,
    LogClosedError,
    LogError,
    LogFencedError,
    LogFullError,
    LogTrimmedError,
    NewerFormatError,
)
from herdpy_sql.errors import SqlError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_for_lack_of_space(error: Exception) -> bool:
    """Whether a checkpoint failed because the disk, or LMDB's map, is full."""
    full = isinstance(error, LogFullError | lmdb.MapFullError) or getattr(error, "errno", None) in _FULL
    return full or any(os.strerror(number) in str(error) for number in _FULL)


def store_error(error: Exception) -> SqlError:
    """The SqlError for a checkpoint that failed because of ``error``."""
    if not isinstance(error, lmdb.MapFullError) and is_for_lack_of_space(error):
        return SqlError(
            "53100",
            "no space is left for the store: the checkpoint failed",
            detail=str(error),
            hint="Free some space. Nothing is lost: the log has every commit.",
        )
    if isinstance(error, lmdb.MapFullError):
        return SqlError(
            "53100",
            "the store's file is as large as its map: the checkpoint failed",
            detail=str(error),
            hint="Restart the server, or open the directory again: the map is sized anew. Nothing is lost.",
        )
    if isinstance(error, lmdb.ReadersFullError):
        return SqlError(
            "53400",
            "too many states of the store are read at the same time: the checkpoint failed",
            detail=str(error),
            hint="End transactions and queries that have been open for long. Nothing is lost.",
        )
    return SqlError("58030", "the store could not be written: the checkpoint failed", detail=str(error))


def sql_error(error: LogError) -> SqlError:
    """The SqlError that says what ``error`` means, with the same outcome.

    An unknown outcome is always 08007, whatever the cause: it is the outcome that the client must
    act upon.
    """
    if error.outcome == "unknown":
        return SqlError(
            "08007",
            "the outcome of the commit is not known: the log failed before it confirmed it",
            detail=str(error),
            hint="Read the rows again before repeating the transaction.",
            outcome="unknown",
        )
    if isinstance(error, LogFullError):
        return SqlError(
            "53100",
            "no space is left for the log: the commit was not done",
            detail=str(error),
            hint="Free some space and run the transaction again; reads continue meanwhile.",
        )
    if isinstance(error, LogFencedError):
        return SqlError("25006", "another process leads this tablespace now", detail=str(error))
    if isinstance(error, CorruptLedgerError):
        return SqlError(
            "XX001",
            str(error),
            hint="Restore the directory from a copy, or run `herdpy check` to see how far the log is whole.",
        )
    if isinstance(error, NewerFormatError):
        return SqlError(error.sqlstate, str(error), hint=error.hint)
    if isinstance(error, LogTrimmedError):
        return SqlError("XX001", str(error), hint="Restore the directory from a copy.")
    if isinstance(error, LogClosedError):
        return SqlError("57P03", "the log takes no more commits", detail=str(error))
    return SqlError("58030", "the log could not be written: the commit was not done", detail=str(error))
