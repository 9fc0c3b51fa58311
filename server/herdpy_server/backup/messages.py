"""What a process that makes a backup and its server say to each other: JSON, a line for each message.

Below ``making``; ``child`` and ``process`` are the two ends. The order has secrets (a key, the ledgers'
password, a URL that may have one), so it is the first line of the process's input, and no argument.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from herdpy.backup.manifest import BackupManifest
from herdpy.log.lsn import LSN, START
from herdpy_server.backup.archiver_messages import ArchivedPlace

Scope = Literal["any", "full", "increment"]
"""A full backup, an increment to the newest one of the log, or one where there is any to continue."""


class StartBackup(Struct, frozen=True, kw_only=True):
    """The process's argument. ``parent``: the server's process."""

    niceness: int
    parent: int


class MakingOrder(Struct, frozen=True, kw_only=True):
    """To the process: what to back up. See ``BackupOrder``.

    Attributes:
        store: the directory of LMDB's environment.
        url, key, is_own: see ``child.repository_for``.
        least: everything up to there is to be in the backup.
    """

    url: str
    key: bytes | None
    is_own: bool = True
    store: str
    log: ArchivedPlace
    tablespace: str
    scope: Scope = "any"
    least: LSN = START
    parent: str | None = None
    branched: str | None = None
    jobs: int = 2
    rate_bytes: int = 0
    settings: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    node: str = ""


class MakingProgress(Struct, frozen=True, tag=True):
    """To the server: see ``BackupProgress``."""

    read_bytes: int
    total_bytes: int
    stored_bytes: int


class Noted(Struct, frozen=True, tag=True):
    """To the server: what a person should know."""

    text: str


class Made(Struct, frozen=True, tag=True):
    """To the server: the backup is there. The process ends."""

    manifest: BackupManifest


class MakingFailed(Struct, frozen=True, tag=True):
    """To the server: it cannot be done. The process ends."""

    kind: Literal["store", "log", "place", "repository", "machine", "other"]
    text: str
    hint: str | None = None


FromChild = MakingProgress | Noted | Made | MakingFailed
from_child = msgspec.json.Decoder(FromChild)
order_of = msgspec.json.Decoder(MakingOrder)
encode = msgspec.json.encode
