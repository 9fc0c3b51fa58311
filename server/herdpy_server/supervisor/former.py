"""The session of a node's process, in a file of its data directory: for the node's next process.

Beside ``attestation``. Whoever starts holds the lock of the directory, so that the process that wrote the
file has ended: but only if it had this very directory, on this very run of this kernel. A copy of the
directory has another inode; a directory that another machine mounts has another boot id, and the old process
may live on the other one. The file lets its reader end the session, so it is its owner's alone.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from herdpy import machine
from herdpy.bookkeeper.metadata.znodes import SessionKey
from herdpy.log.files import replace_file

_log = logging.getLogger("herdpy.supervisor")

FORMAT = 1
FILE_NAME = "SESSION"
_MODE = 0o600


class DirectoryPlace(Struct, frozen=True):
    """Which directory it is, and since which start of the machine.

    Attributes:
        boot: the kernel's id of that; empty: it has none.
        device, inode: the directory's.
    """

    boot: str
    device: int
    inode: int


class FormerSession(Struct, frozen=True, kw_only=True):
    """The session of the process ``instance`` of a node."""

    format: int = FORMAT
    node: str
    instance: str
    session: SessionKey
    place: DirectoryPlace


def place_of(directory: Path) -> DirectoryPlace:
    """Where this is now. Raises OSError."""
    found = os.stat(directory)
    return DirectoryPlace(machine.boot_id(), found.st_dev, found.st_ino)


def keep(directory: Path, node: str, instance: str, session: SessionKey) -> None:
    """Have the next process of this directory know it. Raises OSError."""
    kept = FormerSession(node=node, instance=instance, session=session, place=place_of(directory))
    replace_file(directory / FILE_NAME, msgspec.json.encode(kept), _MODE)


def find(directory: Path) -> FormerSession | None:
    """What the former process has kept, if it has certainly ended; the caller holds the directory's lock.

    What cannot be read is passed over and logged: then the session expires by itself.
    """
    file = directory / FILE_NAME
    try:
        former = msgspec.json.decode(file.read_bytes(), type=FormerSession)
        here = place_of(directory)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("file not understood", extra={"file": str(file), "reason": str(error)})
        return None
    if former.format != FORMAT or not here.boot or former.place != here:
        return None
    return former


def forget(directory: Path) -> None:
    """The session is closed: nothing is left to be done."""
    (directory / FILE_NAME).unlink(missing_ok=True)
