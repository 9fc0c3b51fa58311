"""A process that makes a backup: ``python -m herdpy_server.backup.child``, started by a server.

Above ``making``; ``process`` is the other end. It reads the store's files and the log by itself, stands back
behind its server, and ends with it. What it has written until then is used by the next backup.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import asdict

from herdpy.backup.errors import BackupError
from herdpy.log import LogError
from herdpy.log.detached import LogAddress
from herdpy.log.place import PlaceError
from herdpy.machine import end_with_parent
from herdpy_server.backup.making import BackupOrder, BackupProgress, make_backup
from herdpy_server.backup.messages import (
    FromChild,
    Made,
    MakingFailed,
    MakingOrder,
    MakingProgress,
    Noted,
    StartBackup,
    encode,
    order_of,
)
from herdpy_server.backup.repositories import repository_for
from herdpy_server.child_process import lower_priority
from herdpy_server.store import StoreDamagedError
from herdpy_sql.errors import SqlError

_REPORTED_EVERY_S = 0.5


def main() -> None:
    """The process's life."""
    start = msgspec.json.decode(sys.argv[1], type=StartBackup)
    end_with_parent(start.parent)
    faulthandler.enable()
    lower_priority(start.niceness)
    line = sys.stdin.buffer.readline()
    if not line:  # the server gave it up
        return
    talk = _Talk(sys.stdout.buffer)
    try:
        made(order_of.decode(line), talk)
    except StoreDamagedError as error:
        talk.say(MakingFailed("store", str(error)))
    except PlaceError as error:
        talk.say(MakingFailed("place", str(error)))
    except LogError as error:
        talk.say(MakingFailed("log", str(error)))
    except BackupError as error:
        talk.say(MakingFailed("repository", str(error), error.hint))
    except SqlError as error:
        talk.say(MakingFailed("machine", error.message, error.hint))
    except Exception as error:
        talk.say(MakingFailed("other", f"{type(error).__name__}: {error}"))
        raise


class _Talk:
    """The line to the server."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._reported_s = 0.0

    def say(self, message: FromChild) -> None:
        self._sink.write(encode(message) + b"\n")
        self._sink.flush()

    def report(self, progress: BackupProgress) -> None:
        if time.monotonic() - self._reported_s >= _REPORTED_EVERY_S:
            self._reported_s = time.monotonic()
            self.say(MakingProgress(progress.read_bytes, progress.total_bytes, progress.stored_bytes))


def made(order: MakingOrder, talk: _Talk) -> None:
    """Make the backup, and say so."""
    repository = repository_for(order.url, order.key, is_own=order.is_own)
    what = BackupOrder(
        store=Path(order.store),
        log=LogAddress(**asdict(order.log)),
        tablespace=order.tablespace,
        scope=order.scope,
        least=order.least,
        parent=order.parent,
        branched=order.branched,
        jobs=order.jobs,
        rate_bytes=order.rate_bytes,
        settings=order.settings,
        files=order.files,
        node=order.node,
    )
    manifest = make_backup(what, repository, talk.report, lambda text: talk.say(Noted(text)))
    talk.say(Made(manifest))


if __name__ == "__main__":
    main()
