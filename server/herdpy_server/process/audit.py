"""The audit log: JSON objects, one a line, in a file of its own with rotation, or in the server's log.

Behind ``sessions.identity.Auditor``. A line is written before the thing that it reports is done: what cannot
be recorded is not done, unless the configuration says otherwise. No text has a password in it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_server.roles.passwords import without_passwords
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.config.sections import AuditSection
    from herdpy_server.sessions.identity import AuditedSession

logger = logging.getLogger("herdpy.audit")


class AuditLog:
    """The audit log of a server.

    Attributes:
        classes: the events that are written.
        lines: how many were written. ``failures``: how many could not be.
    """

    def __init__(self, settings: AuditSection) -> None:
        self.classes: frozenset[str] = frozenset(settings.classes)
        self.lines = self.failures = 0
        self._settings = settings
        self._path = Path(settings.file) if settings.file else None
        self._file: int | None = None
        self._size = 0

    def statement(self, session: AuditedSession, kind: str, text: str, *, sqlstate: str = "00000") -> None:
        """See ``Auditor``."""
        identity = session.identity
        shown = without_passwords(text)
        chars = self._settings.statement_chars
        fields: dict[str, object] = {
            "user": session.settings["session_authorization"] or identity.user,
            "role": session.effective_role.name,
            "login": identity.user,
            "database": identity.database,
            "pid": identity.pid,
            "statement": shown if len(shown) <= chars else shown[:chars] + "...",
        }
        if sqlstate != "00000":
            fields["sqlstate"] = sqlstate
        self.event(kind, "refused" if sqlstate != "00000" else "statement", fields)

    def event(self, kind: str, what: str, fields: dict[str, object]) -> None:
        """See ``Auditor``."""
        if kind not in self.classes:
            return
        time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        line = {"time": time, "class": kind, "event": what, **fields}
        if self._path is None:
            logger.info(what, extra={"class": kind, **fields})
            self.lines += 1
            return
        try:
            self._write(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")
        except OSError as error:
            self._failed(error)

    def _write(self, data: bytes) -> None:
        assert self._path is not None
        if self._file is not None and not self._path.exists():  # it was moved away
            self.close()
        if self._file is not None and self._size and self._size + len(data) > self._settings.rotate_bytes:
            self._rotate()
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._file).st_size
        written = os.write(self._file, data)
        self._size += written
        if written < len(data):
            raise OSError(28, "the line was cut off")
        self.lines += 1

    def _rotate(self) -> None:
        """The file becomes <file>.1, that becomes <file>.2, and the oldest goes."""
        assert self._path is not None
        self.close()
        names = [self._path, *(Path(f"{self._path}.{i}") for i in range(1, self._settings.keep + 1))]
        with contextlib.suppress(FileNotFoundError):
            names[-1].unlink()
        for older, newer in zip(reversed(names), list(reversed(names))[1:], strict=False):
            with contextlib.suppress(FileNotFoundError):
                newer.rename(older)

    def _failed(self, error: OSError) -> None:
        self.close()
        self.failures += 1
        if self.failures == 1 or self._settings.on_failure == "continue":
            logger.error("the audit log cannot be written: %s", error)
        if self._settings.on_failure == "refuse":
            raise SqlError(
                "58030",
                "the audit log cannot be written: statements that it must record are refused",
                hint="The server's log has the reason.",
            ) from error

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        file, self._file = self._file, None
        self._size = 0
        if file is not None:
            os.close(file)
