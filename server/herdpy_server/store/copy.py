"""Store layer, inside: a consistent copy of a store while it is in use.

LMDB copies one of its states (``copyfd``), without free pages, through a pipe, so that the bytes are
counted and hashed on their way into the file. A manifest beside it, written last, says what the copy
must be; without one a copy is not whole.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_128

from herdpy.log.lsn import LSN
from herdpy.machine import sync_all
from herdpy_server.store.disk import Disk, StoreDamagedError

MANIFEST = "manifest.json"
_CHUNK = 1 << 20
_AHEAD = 8 << 20
"""So much of the file is read ahead of the copying, from its beginning: much is copied as it lies there."""

Progress = Callable[[int, int], object]
"""Called with bytes copied and about how many there are."""


class CopyManifest(msgspec.Struct, frozen=True):
    """What a copy holds.

    Attributes:
        lsn: the position of its state, as ``ledger:entry``.
        uuid: of the store it was made from.
        nbytes, checksum: of its ``data.mdb``; XXH3-128 in hexadecimal.
    """

    lsn: str
    uuid: str
    nbytes: int
    checksum: str


def copy(disk: Disk, target: Path, progress: Progress | None) -> LSN:
    """Copy the newest state of LMDB into the new directory ``target``; returns its position.

    Raises:
        FileExistsError: there is something there already.
        OSError: it could not be written.
    """
    target.mkdir(parents=True)
    info = disk.env.info()
    total = (info["last_pgno"] + 1) * disk.env.stat()["psize"]
    hashed, copied, wanted = xxh3_128(), 0, 0
    source, sink = os.pipe()
    failed: list[BaseException] = []
    thread = threading.Thread(target=_pour, args=(disk.env, sink, failed), name="herdpy-copy")
    try:
        with (target / "data.mdb").open("wb") as file:
            thread.start()
            try:
                while chunk := os.read(source, _CHUNK):
                    if disk.pages is not None and copied >= wanted - _AHEAD:
                        disk.pages.want_bytes(wanted, _AHEAD)
                        wanted += _AHEAD
                    file.write(chunk)
                    hashed.update(chunk)
                    copied += len(chunk)
                    if progress is not None:
                        progress(copied, max(total, copied))
            finally:
                os.close(source)  # so that LMDB gives up if we do
                thread.join()
            if failed:
                raise failed[0]
            file.flush()
            sync_all(file.fileno())
    except BaseException:
        (target / "data.mdb").unlink(missing_ok=True)
        target.rmdir()
        raise
    taken = Disk(target, read_only=True, map_size_bytes=max(copied, 1 << 20), lock=False)
    manifest = CopyManifest(str(taken.durable), taken.uuid, copied, hashed.hexdigest())
    taken.close()
    with (target / MANIFEST).open("wb") as file:
        file.write(msgspec.json.encode(manifest))
        file.flush()
        sync_all(file.fileno())
    return LSN.parse(manifest.lsn)


def _pour(env: Any, sink: int, failed: list[BaseException]) -> None:
    try:
        env.copyfd(sink, compact=True)
    except BaseException as error:  # noqa: BLE001 - the copying thread raises it
        failed.append(error)
    finally:
        os.close(sink)


def verify_copy(target: Path) -> CopyManifest:
    """The manifest of a copy that is what it says.

    Raises:
        StoreDamagedError: it is not whole, or was changed.
    """
    try:
        manifest = msgspec.json.decode((target / MANIFEST).read_bytes(), type=CopyManifest)
    except FileNotFoundError:
        raise StoreDamagedError(f"{target} is not a whole copy: it has no {MANIFEST}") from None
    except msgspec.DecodeError as error:
        raise StoreDamagedError(f"{target / MANIFEST}: {error}") from error
    hashed, nbytes = xxh3_128(), 0
    with (target / "data.mdb").open("rb") as file:
        while chunk := file.read(_CHUNK):
            hashed.update(chunk)
            nbytes += len(chunk)
    if (nbytes, hashed.hexdigest()) != (manifest.nbytes, manifest.checksum):
        raise StoreDamagedError(f"{target / 'data.mdb'} is not what its manifest says")
    return manifest
