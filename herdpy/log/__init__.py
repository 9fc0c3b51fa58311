"""The commit log of one tablespace: positions, records, entries, ledgers, append, read, trim.

From the bottom: ``lsn``, ``errors``, ``records`` and ``entry`` are the format and know no I/O; ``wait`` is
how results come back; ``commit_log`` is the interface; ``file_*``, ``ledger_list``, ``recovery`` and
``group_commit`` are the log over files; ``inspect`` shows one to people. Imported by themselves:
``bookkeeper``, the log in ledgers of Apache BookKeeper; ``staging``, rows of loads in ledgers; ``published``,
snapshots for readers of the log; ``detached``, a log that another process writes.
"""

from herdpy.log.commit_log import Append, CommitLog, LastWait, LogSettings
from herdpy.log.entry import LogEntry, LoggedTransaction, TransactionAssembler
from herdpy.log.errors import (
    AheadOfLogError,
    ChainError,
    CorruptLedgerError,
    LedgerListConflictError,
    LogBusyError,
    LogClosedError,
    LogError,
    LogFencedError,
    LogFullError,
    LogTrimmedError,
    LogUnavailableError,
    LogWriteError,
    NewerFormatError,
    RecordError,
)
from herdpy.log.file_log import FileLog
from herdpy.log.ledger_list import LedgerInfo
from herdpy.log.lsn import LSN, START
from herdpy.log.records import (
    AlterTable,
    Before,
    CreateIndex,
    CreateTable,
    Delete,
    DropIndex,
    DropObject,
    DropRole,
    DropTable,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadDone,
    LoadOp,
    Notify,
    PutObject,
    PutRole,
    Record,
    SequenceAdvance,
    StagedPart,
    TablesChecksum,
    Truncate,
    Update,
)
from herdpy.log.recovery import TornTail
from herdpy.log.wait import OwnWait, Wait, run_blocking

__all__ = [
    "LSN",
    "START",
    "AheadOfLogError",
    "AlterTable",
    "Append",
    "Before",
    "ChainError",
    "CommitLog",
    "CorruptLedgerError",
    "CreateIndex",
    "CreateTable",
    "Delete",
    "DropIndex",
    "DropObject",
    "DropRole",
    "DropTable",
    "FileLog",
    "Insert",
    "InsertBatch",
    "LastWait",
    "LedgerInfo",
    "LedgerListConflictError",
    "LoadBatch",
    "LoadDone",
    "LoadOp",
    "LogBusyError",
    "LogClosedError",
    "LogEntry",
    "LogError",
    "LogFencedError",
    "LogFullError",
    "LogSettings",
    "LogTrimmedError",
    "LogUnavailableError",
    "LogWriteError",
    "LoggedTransaction",
    "NewerFormatError",
    "Notify",
    "OwnWait",
    "PutObject",
    "PutRole",
    "Record",
    "RecordError",
    "SequenceAdvance",
    "StagedPart",
    "TablesChecksum",
    "TornTail",
    "TransactionAssembler",
    "Truncate",
    "Update",
    "Wait",
    "run_blocking",
]
