"""What an archiving process and its server say to each other: JSON, a line for each message.

``archiver_child`` and ``archiver`` are the two ends. The first line is a :class:`StartArchive`: it may hold
passwords, which a list of processes is not to show.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from herdpy.log.lsn import LSN
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess

FailureKind = Literal["place", "repository", "trimmed", "log", "other"]


class ArchivedPlace(Struct, frozen=True, kw_only=True):
    """Where a log is; see ``LogAddress``, which needs the client of BookKeeper to be imported.

    Attributes:
        zookeeper_access: how ZooKeeper is talked to.
    """

    tablespace: str
    log_id: str
    directory: str = ""
    zookeeper: str = ""
    ledgers_root: str = ""
    list_path: str = ""
    password: bytes = b""
    zookeeper_access: ZooKeeperAccess = IN_THE_CLEAR


class StartArchive(Struct, frozen=True, kw_only=True):
    """What the process is started with.

    Attributes:
        place: of the log.
        repository: the id of the repository that it wrote to before; empty: none. Another is refused.
        parent_log, branched: the log that this one's database was restored from, and the position.
        rate_bytes: how much it may write in a second; 0: no limit.
        niceness: how far it stands back.
        server: the server's process.
    """

    url: str
    key_file: str
    repository: str
    place: ArchivedPlace
    parent_log: str | None
    branched: str | None
    rate_bytes: int
    niceness: int
    server: int


class Upto(Struct, frozen=True, tag=True):
    """To the process: archive up to here. It answers with what it does, and then with Done or ArchiveFailed.

    Attributes:
        lac: the newest entry that is confirmed.
        ledger_id, length: of a log in files: how far the ledger that is open may be read, in bytes.
    """

    lac: LSN
    ledger_id: int = 0
    length: int = 0


class ArchiveOpened(Struct, frozen=True, tag=True):
    """To the server: it has looked at the repository and the log.

    Attributes:
        repository: its id.
        archived: up to where the archive has the log; the log's base where it has nothing after that.
        gap_after: where the archive ends when entries after that are trimmed from the log; None: none are.
    """

    repository: str
    archived: LSN
    gap_after: LSN | None = None


class Archived(Struct, frozen=True, tag=True):
    """To the server: entries up to here are in the repository.

    Attributes:
        log_bytes: of these entries.
        raw_bytes, stored_bytes: of the files, before and after compression; of staged rows, too.
    """

    lsn: LSN
    log_bytes: int
    raw_bytes: int
    stored_bytes: int


class Busy(Struct, frozen=True, tag=True):
    """To the server: something that takes long goes on."""


class Remarked(Struct, frozen=True, tag=True):
    """To the server: something for operators, which keeps nothing from being archived."""

    text: str


class Done(Struct, frozen=True, tag=True):
    """To the server: everything up to where it was to archive is in the repository."""

    lsn: LSN


class ArchiveFailed(Struct, frozen=True, tag=True):
    """To the server: it could not be done. Another Upto begins anew."""

    kind: FailureKind
    text: str


FromArchiver = ArchiveOpened | Archived | Busy | Remarked | Done | ArchiveFailed
from_archiver = msgspec.json.Decoder(FromArchiver)
to_archiver = msgspec.json.Decoder(Upto)
start_of = msgspec.json.Decoder(StartArchive)
encode = msgspec.json.encode
