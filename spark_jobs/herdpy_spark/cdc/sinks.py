"""Where messages go, with the position that they end at: a file, or a stream such as standard output.

Above ``messages``. A sink takes a batch of messages and the offset at its end together. A file is made
durable first, and then its length and the offset by replacing a small file beside it (``FILE.position``);
what a kill leaves behind that length is cut off when the sink is opened again. So file and position move
together.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Protocol

from herdpy.log.files import replace_file
from herdpy.machine import sync_all
from herdpy_spark.cdc.messages import ChangeFormat, Message, MessagesError
from herdpy_spark.feed.driver import Offset


class SinkError(MessagesError):
    """The sink cannot be used; the message says why and what to do."""


class ChangesSink(Protocol):
    """Takes batches of messages.

    Attributes:
        is_atomic: a batch that fails leaves nothing behind, and can be written again.
    """

    is_atomic: bool

    def position(self) -> Offset | None:
        """Where what it has ends; None: it has nothing."""

    def write(self, messages: Iterable[Message], end: Offset) -> int:
        """Take a batch, which ends at ``end``. How many messages it had.

        Raises:
            SinkError: it cannot.
        """

    def close(self) -> None:
        """Nothing more comes."""


def _write_lines(file: IO[bytes], form: ChangeFormat, messages: Iterable[Message]) -> int:
    """Write messages as lines; how many there were."""
    count = 0
    for count, message in enumerate(messages, 1):  # noqa: B007  # the last one counts
        file.write(form.line(message) + b"\n")
    return count


class ChangesStream:
    """``ChangesSink``: lines on a stream, which keeps no position: the lines have theirs."""

    is_atomic = False

    def __init__(self, stream: IO[bytes], form: ChangeFormat) -> None:
        self._stream = stream
        self._form = form

    def position(self) -> Offset | None:
        """None."""
        return None

    def write(self, messages: Iterable[Message], end: Offset) -> int:
        """Write the lines, and flush."""
        count = _write_lines(self._stream, self._form, messages)
        self._stream.flush()
        return count

    def close(self) -> None:
        """Leave the stream open: it is not ours."""


class ChangesFile:
    """``ChangesSink``: lines at the end of a file that is this sink's alone.

    Args:
        identity: what the lines are of; a file of another identity is refused.

    Raises:
        SinkError: the file is another's, or in use, or shorter than it was.
        OSError: it cannot be opened.
    """

    is_atomic = True

    def __init__(self, path: Path, form: ChangeFormat, identity: dict[str, str]) -> None:
        self._form = form
        self._identity = identity
        self._kept = path.with_name(f"{path.name}.position")
        self._position: Offset | None = None
        self._file = path.open("ab")
        try:
            self._open(path)
        except BaseException:
            self._file.close()
            raise

    def _open(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SinkError(f"another process writes to {path}") from None
        size = os.fstat(self._file.fileno()).st_size
        kept = self._read_kept()
        if kept is None:
            if size:
                raise SinkError(f"{path} is there, {self._kept.name} is not: name a new file, or remove it")
            self._keep(0, None)  # before the first line is: a file without it is not ours
            return
        if kept["of"] != self._identity:
            raise SinkError(f"{path} has changes of {kept['of']}, not of {self._identity}: name a new file")
        if size < kept["bytes"]:
            raise SinkError(f"{path} has {size} bytes, and had {kept['bytes']}: it was cut; begin a new file")
        self._file.truncate(kept["bytes"])
        if kept["offset"] is not None:
            self._position = Offset.from_json(kept["offset"])

    def _read_kept(self) -> dict[str, Any] | None:
        try:
            kept = json.loads(self._kept.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise SinkError(f"{self._kept} is damaged: {error}") from error
        if not isinstance(kept, dict) or not {"of", "bytes", "offset"} <= set(kept):
            raise SinkError(f"{self._kept} is damaged: it has no position")
        return kept

    def position(self) -> Offset | None:
        """Where the file ends."""
        return self._position

    def write(self, messages: Iterable[Message], end: Offset) -> int:
        """Append the lines, and then the position."""
        begun = os.fstat(self._file.fileno()).st_size
        try:
            count = self._append(messages)
        except BaseException:
            self._file.truncate(begun)
            raise
        if count:
            sync_all(self._file.fileno())
        self._keep(os.fstat(self._file.fileno()).st_size, end)
        return count

    def _keep(self, size: int, end: Offset | None) -> None:
        offset = None if end is None else end.to_json()
        kept = {"of": self._identity, "bytes": size, "offset": offset}
        replace_file(self._kept, json.dumps(kept).encode())
        self._position = end

    def _append(self, messages: Iterable[Message]) -> int:
        try:
            return _write_lines(self._file, self._form, messages)
        finally:
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
