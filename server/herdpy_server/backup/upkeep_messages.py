"""What a process that lists and expires backups and its server say to each other: a JSON document each.

Below ``upkeep``; ``upkeep_child`` is the other end. The order has secrets (a key, a URL that may have a
password), so it is the process's input, and no argument.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from herdpy.backup.policy import KeepPolicy


class StartUpkeep(Struct, frozen=True, kw_only=True):
    """The process's argument. ``parent``: the server's process."""

    niceness: int
    parent: int


class UpkeepOrder(Struct, frozen=True, kw_only=True):
    """To the process: which backups to list.

    Attributes:
        log_id: of the tablespace's log here.
        policy: expire the log's backups by it first; None: expire none.
    """

    url: str
    key: bytes | None
    log_id: str
    policy: KeepPolicy | None = None


class KnownBackup(Struct, frozen=True):
    """A backup in the repository.

    Attributes:
        image, end: positions; see ``BackupManifest``.
        full_us: when the full backup began whose pages it has; that may be expired itself.
        time_us: of everything that is in it, a commit time; 0: not known.
    """

    id: str
    kind: str
    node: str
    begun_us: int
    full_us: int
    finished_us: int
    image: str
    end: str
    time_us: int
    parent: str | None
    tables: int
    rows: int
    raw_bytes: int
    stored_bytes: int


class ListedBackups(Struct, frozen=True, tag=True):
    """To the server: the log's backups, oldest first.

    Attributes:
        damaged: ids whose manifests cannot be read, and why.
        removed: ids that were expired.
        kept_back: why nothing was expired; None: it was.
    """

    backups: list[KnownBackup]
    damaged: list[tuple[str, str]]
    removed: list[str]
    freed_bytes: int
    kept_back: str | None = None


class UpkeepFailed(Struct, frozen=True, tag=True):
    """To the server: it cannot be done."""

    kind: Literal["place", "repository", "other"]
    text: str


answer_of = msgspec.json.Decoder(ListedBackups | UpkeepFailed)
order_of = msgspec.json.Decoder(UpkeepOrder)
encode = msgspec.json.encode
