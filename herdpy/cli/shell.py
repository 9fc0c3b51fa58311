"""Runs statements and shows what they give: the part that the prompt, scripts and ``-c`` share.

A :class:`Shell` holds a connection and how results are to be shown. Statements run in a worker
thread, so that Ctrl-C reaches this one, which then cancels the statement and not the shell.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from herdpy.cli import meta
from herdpy.cli.errors import CliError, database_error, render, tell
from herdpy.cli.output import Format, write_result
from herdpy.cli.split import StatementText, split
from herdpy.cli.target import TargetDatabase

T = TypeVar("T")

_NESTING = 16
_LOOK_S = 0.25


@dataclass
class Shell:
    """What runs pieces of a script against one connection.

    Attributes:
        out: where rows go; everything else goes to standard error.
        quiet: no command tags ("INSERT 0 1") and row counts after results.
        limit: show at most this many rows of a table; 0 is all.
        stop: whether a script ends at its first error.
        prompt: "plain", or "status": with the leader, the read level and the lag.
        failures: how many pieces failed.
        last: the statement that ran last, for editing.
    """

    connection: Any
    target: TargetDatabase
    out: IO[str] = field(default_factory=lambda: sys.stdout)
    format: Format = Format.TABLE
    header: bool = True
    expanded: bool = False
    timing: bool = False
    quiet: bool = False
    limit: int = 0
    stop: bool = True
    prompt: str = "plain"
    failures: int = 0
    last: str = ""
    _depth: int = 0
    _file: IO[str] | None = None
    _screen: IO[str] = field(default_factory=lambda: sys.stdout)
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "herdpy-statement"))

    def close(self) -> None:
        """End the worker and close the connection."""
        self.send_to(None)
        self._worker.shutdown()
        self.connection.close()

    @property
    def transaction(self) -> str:
        """ "IDLE", "INTRANS" in a transaction, "INERROR" in a failed one."""
        return str(self.connection.info.transaction_status.name)

    def run_script(self, text: str, name: str | None = None) -> bool:
        """Run every piece of ``text``; False when one failed. A last statement needs no semicolon."""
        script = split(text)
        pieces = list(script.pieces)
        if script.rest:
            pieces.append(StatementText(script.rest, script.rest_line))
        good = True
        for piece in pieces:
            where = f"{name}:{piece.line}" if name else None
            if not self.run(piece, where):
                good = False
                if self.stop:
                    return False
        return good

    def run(self, piece: StatementText, where: str | None = None) -> bool:
        """Run one piece and show its result or its error; False when it failed."""
        try:
            if piece.meta:
                return meta.run(self, piece.text)
            self.execute(piece.text)
        except BrokenPipeError:
            raise  # whoever read the rows has had enough
        except CliError as error:
            tell(render(error, where=where))
        except Exception as error:
            if database_error(error) is None and not isinstance(error, OSError):
                raise
            tell(render(error, piece.text, where))
        else:
            return True
        self.failures += 1
        return False

    def run_file(self, path: Path) -> bool:
        """Run a script from a file; CliError when it cannot be read, or scripts run each other for ever."""
        if self._depth >= _NESTING:
            raise CliError(f"scripts are nested more than {_NESTING} deep at {path}")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"cannot read {path}: {error}") from error
        self._depth += 1
        try:
            return self.run_script(text, str(path))
        finally:
            self._depth -= 1

    def execute(self, sql: str, parameters: tuple[object, ...] = ()) -> None:
        """Run one statement and show what it gives; raises what the driver raises."""
        self.last = sql
        began = time.perf_counter()
        with contextlib.closing(self.connection.cursor()) as cursor:
            self.interruptibly(lambda: cursor.execute(sql, parameters) if parameters else cursor.execute(sql))
            self._show(cursor)
        if self.timing:
            tell(f"Time: {(time.perf_counter() - began) * 1000:.3f} ms")

    def _show(self, cursor: Any) -> None:
        if cursor.description is None:
            if not self.quiet and self.format is Format.TABLE:
                tag = getattr(cursor, "statusmessage", None)
                self.out.write(f"{tag}\n" if tag else f"OK, {max(cursor.rowcount, 0)} rows\n")
                self.out.flush()
            return
        count = write_result(
            cursor, self.format, self.out, header=self.header, expanded=self.expanded, limit=self.limit
        )
        if not self.quiet and self.format is Format.TABLE:
            rest = f", the first {self.limit:,} shown: \\limit 0 shows all" if 0 < self.limit < count else ""
            self.out.write(f"({count} row{'' if count == 1 else 's'}{rest})\n")
        self.out.flush()

    def interruptibly(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the worker; Ctrl-C cancels the running statement, whose error then comes."""

        def cancel(number: int, frame: object) -> None:
            tell("Cancel request sent")
            self.connection.cancel()

        if threading.current_thread() is not threading.main_thread():
            return self._worker.submit(work).result()
        before = signal.signal(signal.SIGINT, cancel)
        try:
            running = self._worker.submit(work)
            # A signal that comes just before a wait does not end it: look again now and then.
            while not wait([running], timeout=_LOOK_S).done:
                pass
            return running.result()
        finally:
            signal.signal(signal.SIGINT, before)

    def send_to(self, path: Path | None) -> None:
        """Send rows to a file from now on; None: back to where they went at first."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self.out = self._screen
        if path is None:
            return
        try:
            self._file = path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise CliError(f"cannot write {path}: {error.strerror}") from error
        self._screen, self.out = self.out, self._file
