"""A publishing process: ``python -m herdpy_server.publishing.child``, started by a server with a ``Start``.

Above ``snapshot``; ``process`` is the other end. It reads the store's files by itself, stands back behind its
server, and ends with it. What it has written until then is no snapshot, since the manifest comes last.
"""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from herdpy.log.published import PlaceError, dated, remove_others
from herdpy.machine import end_with_parent
from herdpy_server.child_process import lower_priority
from herdpy_server.publishing.messages import (
    At,
    Failed,
    FromChild,
    Holds,
    Progress,
    Removed,
    Start,
    Stay,
    Written,
    encode,
    from_server,
)
from herdpy_server.publishing.snapshot import Moment, frozen_state, there, write_snapshot
from herdpy_server.store import StoreDamagedError

_TOLD_EVERY_S = 0.5

M = TypeVar("M", At, Stay)


def main() -> None:
    """The process's life."""
    start = msgspec.json.decode(sys.argv[1], type=Start)
    end_with_parent(start.parent)
    faulthandler.enable()
    lower_priority(start.niceness)
    talk = _Talk(sys.stdin.buffer, sys.stdout.buffer)
    try:
        publish(start, talk)
    except StoreDamagedError as error:
        talk.say(Failed("store", str(error)))
    except PlaceError as error:
        talk.say(Failed("place", str(error)))
    except Exception as error:
        talk.say(Failed("other", f"{type(error).__name__}: {error}"))
        raise


class _Talk:
    """The two ends of the line."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink

    def say(self, message: FromChild) -> None:
        self._sink.write(encode(message) + b"\n")
        self._sink.flush()

    def hear(self, kind: type[M]) -> M:
        line = self._source.readline()
        if not line:  # the server gave it up
            sys.exit(0)
        message = from_server.decode(line)
        assert isinstance(message, kind), f"{message} where a {kind.__name__} is due"
        return message


def publish(start: Start, talk: _Talk) -> None:
    """From the state to what is removed."""
    state = frozen_state(Path(start.store))
    talk.say(Holds(state.lsn, state.rows))
    told_s = time.monotonic()

    def progress(rows: int, written: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _TOLD_EVERY_S:
            told_s = time.monotonic()
            talk.say(Progress(rows, written))

    manifest = there(start.url, start.tablespace, state.lsn)
    moment: Moment | Callable[[], Moment] = partial(_moment, talk)  # found out while rows are written
    if manifest is not None:
        moment = _moment(talk)
        manifest = manifest if manifest.log_id == moment.log_id else None
    if manifest is None:
        manifest = write_snapshot(state, start.url, start.tablespace, moment, progress=progress)
    state.close()
    found, damaged = dated(start.url, start.tablespace, manifest.log_id)
    talk.say(
        Written(
            time_us=manifest.time_us,
            rows=manifest.rows,
            bytes=manifest.size_bytes,
            found=[(one.ref.lsn, one.time_us) for one in found],
            damaged=[str(error) for error in damaged],
        )
    )
    staying = talk.hear(Stay).lsns
    talk.say(Removed(remove_others(start.url, start.tablespace, staying, manifest.log_id)))


def _moment(talk: _Talk) -> Moment:
    at = talk.hear(At)
    return Moment(at.log_id, at.crc, at.time_us)


if __name__ == "__main__":
    main()
