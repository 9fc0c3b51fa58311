"""What a publishing process and its server say to each other: JSON, a line for each message.

Beside ``snapshot``; ``child`` and ``process`` are the two ends.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from herdpy.log.lsn import LSN


class Start(Struct, frozen=True, kw_only=True):
    """What the process is started with, as its argument.

    Attributes:
        store: the directory of LMDB's environment.
        parent: the server's process.
    """

    store: str
    url: str
    tablespace: str
    niceness: int
    parent: int


class Holds(Struct, frozen=True, tag=True):
    """To the server: this is the state that is written. It answers with :class:`At`."""

    lsn: LSN
    rows: int


class At(Struct, frozen=True, tag=True):
    """To the process: what belongs to the LSN; see ``Manifest``."""

    log_id: str
    crc: int | None
    time_us: int


class Progress(Struct, frozen=True, tag=True):
    """To the server: so much is written."""

    rows: int
    bytes: int


class Written(Struct, frozen=True, tag=True):
    """To the server: the snapshot is there. It answers with :class:`Stay`.

    Attributes:
        time_us: of its manifest.
        found: all snapshots that are there, newest first: their LSNs and times.
        damaged: what is wrong with others.
    """

    time_us: int
    rows: int
    bytes: int
    found: list[tuple[LSN, int]]
    damaged: list[str]


class Stay(Struct, frozen=True, tag=True):
    """To the process: remove all snapshots but these; nothing when there are none."""

    lsns: list[LSN]


class Removed(Struct, frozen=True, tag=True):
    """To the server: they are gone. The process ends."""

    lsns: list[LSN]


class Failed(Struct, frozen=True, tag=True):
    """To the server: it cannot be done. The process ends."""

    kind: Literal["store", "place", "other"]
    text: str


FromChild = Holds | Progress | Written | Removed | Failed
from_child = msgspec.json.Decoder(FromChild)
from_server = msgspec.json.Decoder(At | Stay)
encode = msgspec.json.encode
