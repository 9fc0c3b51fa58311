"""The ledger list of a tablespace: which ledgers make up its log, in order.

The list is changed by compare-and-set on its version, so two writers can never both go on: the
one that loses steps down. A ledger is in the list before its first entry is written. In a cluster
the list is a ZooKeeper node; here it is one small file, replaced atomically and checksummed.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import threading
from dataclasses import dataclass, replace
from typing import Any, Protocol

from google_crc32c import value as _crc32c

from herdpy.log.entry import START_CRC
from herdpy.log.errors import CorruptLedgerError, LedgerListConflictError, NewerFormatError
from herdpy.log.files import Files, OsFiles, read_all, write_all
from herdpy.log.lsn import LSN, START

FILE_NAME = "ledgers"
VERSION = 1
_NAME = "herdpy-ledger-list"
_TITLE = f"{_NAME} {VERSION}"


@dataclass(slots=True, frozen=True)
class LedgerInfo:
    """One ledger of the list.

    Attributes:
        ledger_id: its id, larger than that of every ledger before it.
        created_us: microseconds since 1970-01-01 UTC.
        closed: whether its last entry is settled; the fields below mean something only then.
        last_entry_id: id of its last entry, or -1.
        length: bytes from the start of the ledger to the end of that entry.
        crc: the running CRC of that entry.
        epoch, node: the term and the node that wrote it, where logs have leaders (BookKeeper).
    """

    ledger_id: int
    created_us: int
    closed: bool = False
    last_entry_id: int = -1
    length: int = 0
    crc: int = 0
    epoch: int = 0
    node: str = ""

    @property
    def last(self) -> LSN:
        """The last entry's position (of a closed ledger)."""
        return LSN(self.ledger_id, self.last_entry_id)


@dataclass(slots=True, frozen=True)
class LedgerListState:
    """The list at one version.

    Attributes:
        version: counts the changes.
        log_id: 16 random bytes in hex, in every ledger's header too: a file of another log is seen.
        next_ledger_id: the id the next ledger gets. Ids are never used twice.
        base, base_crc: the last entry that was trimmed (START: none), and its running CRC.
        ledgers: in log order; in files only the last one may be open.
        epoch, node: the term and the node that own the log, where logs have leaders (BookKeeper).
    """

    version: int
    log_id: str
    next_ledger_id: int = 1
    base: LSN = START
    base_crc: int = START_CRC
    ledgers: tuple[LedgerInfo, ...] = ()
    epoch: int = 0
    node: str = ""

    @property
    def settled_end(self) -> tuple[LSN, int]:
        """Position and running CRC of the last entry of the closed ledgers."""
        for ledger in reversed(self.ledgers):
            if ledger.closed and ledger.last_entry_id >= 0:
                return ledger.last, ledger.crc
        return self.base, self.base_crc


def predecessor_of(state: LedgerListState, ledger_id: int) -> tuple[LSN, int]:
    """Position and running CRC of the entry before a ledger's first."""
    before, crc = state.base, state.base_crc
    for ledger in state.ledgers:
        if ledger.ledger_id >= ledger_id:
            break
        before, crc = ledger.last, ledger.crc
    return before, crc


def position_before(state: LedgerListState, lsn: LSN, span: int = 1) -> LSN | None:
    """The position ``span`` entries before ``lsn``, or, if its ledger has fewer, the end of the one before.

    None: the list does not have its ledger.
    """
    if lsn.entry_id >= span:
        return LSN(lsn.ledger_id, lsn.entry_id - span)
    before = state.base
    for ledger in state.ledgers:
        if ledger.ledger_id == lsn.ledger_id:
            return before
        if ledger.last_entry_id >= 0:
            before = ledger.last
    return None


class LedgerList(Protocol):
    """Where the list is kept."""

    def read(self) -> LedgerListState | None:
        """The list, or None when there is none yet."""

    def write(self, state: LedgerListState, expected_version: int) -> LedgerListState:
        """Replace version ``expected_version`` (0: no list) by ``state``; returns it, versioned.

        Raises:
            LedgerListConflictError: the list is at another version.
        """


class FileLedgerList:
    """The list as the file ``ledgers`` of the log's directory.

    Two processes are kept apart by the lock on the tablespace's directory; the version catches
    what gets past it.
    """

    def __init__(self, directory: str, files: Files | None = None) -> None:
        self._directory = directory
        self._files: Files = files or OsFiles()
        self._lock = threading.Lock()
        self.path = os.path.join(directory, FILE_NAME)

    def read(self) -> LedgerListState | None:
        """The list; CorruptLedgerError: the file is damaged, OSError: it is unreadable, NewerFormatError."""
        try:
            data = read_all(self._files, self.path)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        try:
            return _decode(data)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLedgerError(None, None, self.path, str(error)) from error

    def write(self, state: LedgerListState, expected_version: int) -> LedgerListState:
        with self._lock:
            now = self.read()
            version = now.version if now else 0
            if version != expected_version:
                raise LedgerListConflictError(
                    f"the ledger list is at version {version}, not {expected_version}:"
                    " another process writes to this log"
                )
            state = replace(state, version=version + 1)
            files, new = self._files, self.path + ".new"
            try:
                files.remove(new)  # left by a crash
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise
            fd = files.open(new, write=True, create=True)
            try:
                write_all(files, fd, _encode(state), 0)
                files.fsync(fd)
            finally:
                files.close(fd)
            files.replace(new, self.path)
            files.sync_directory(self._directory)
            return state


def _encode(state: LedgerListState) -> bytes:
    body = {
        "version": state.version,
        "log": state.log_id,
        "next_ledger": state.next_ledger_id,
        "base": [*state.base],
        "base_crc": state.base_crc,
        "ledgers": [_ledger(ledger) for ledger in state.ledgers],
    }
    text = json.dumps(body, indent=1).encode() + b"\n"
    return f"{_TITLE} {_crc32c(text):08x}\n".encode() + text


def _ledger(ledger: LedgerInfo) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": ledger.ledger_id,
        "created_us": ledger.created_us,
        "state": "closed" if ledger.closed else "open",
    }
    if ledger.closed:
        entry |= {"last_entry": ledger.last_entry_id, "length": ledger.length, "crc": ledger.crc}
    return entry


def _decode(data: bytes) -> LedgerListState:
    head, _, text = data.partition(b"\n")
    title, _, crc = head.decode("ascii", "replace").rpartition(" ")
    name, _, version = title.rpartition(" ")
    if name != _NAME or not version.isdecimal():
        raise ValueError("the first line does not name a ledger list")
    if crc != f"{_crc32c(text):08x}":
        raise ValueError("the list does not match its checksum")
    if int(version) < VERSION:
        raise ValueError(f"there never was a ledger list of format {version}")
    if title != _TITLE:
        raise NewerFormatError(f"a ledger list of format {version} is not known here")
    body = json.loads(text)
    ledgers = []
    for item in body["ledgers"]:
        closed = item["state"] == "closed"
        tail = (item["last_entry"], item["length"], item["crc"]) if closed else (-1, 0, 0)
        ledgers.append(LedgerInfo(item["id"], item["created_us"], closed, *tail))
    for before, after in itertools.pairwise(ledgers):
        if before.ledger_id >= after.ledger_id or not before.closed:
            raise ValueError("the list's ledgers are out of order")
    return LedgerListState(
        version=body["version"],
        log_id=body["log"],
        next_ledger_id=body["next_ledger"],
        base=LSN(*body["base"]),
        base_crc=body["base_crc"],
        ledgers=tuple(ledgers),
    )
