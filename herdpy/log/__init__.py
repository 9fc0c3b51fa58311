"""The commit log of one tablespace: positions, records, entries, ledgers, append, read, trim.

From the bottom: ``lsn``, ``errors``, ``records``, ``transaction``, ``entry``,
``assembler`` are the format and know no I/O; ``wait`` is how results come back; ``commit_log`` is the
interface; ``files``, ``file_ledger``, ``ledger_list``, ``recovery``, ``file_ledgers`` are
file ledgers, and ``group_commit`` and ``file_log`` the log made of them; ``inspect`` shows one to people.
The package ``bookkeeper``, imported by itself, is the log in ledgers of Apache BookKeeper; so is ``staging``,
rows of loads in ledgers of their own.
DESIGN.md says why it is so; docs/log-format.md has the bytes.
"""

from herdpy.log.assembler import TransactionAssembler
from herdpy.log.commit_log import Append, CommitLog, LogSettings
from herdpy.log.entry import LogEntry
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
from herdpy.log.transaction import Transaction
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
    "OwnWait",
    "PutObject",
    "PutRole",
    "Record",
    "RecordError",
    "SequenceAdvance",
    "StagedPart",
    "TablesChecksum",
    "TornTail",
    "Transaction",
    "TransactionAssembler",
    "Truncate",
    "Update",
    "Wait",
    "run_blocking",
]
