"""How failures are shown (what happened, where in the statement, and what to do next), and how signals end a
command.

Every command runs under :func:`guarded`. A :class:`CliError` is one the command line found itself; anything
with a ``sqlstate`` comes from the database and is shown with its DETAIL, HINT and a caret under the place in
the statement. Both go to standard error.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import ParamSpec, TypeVar

from herdpy.distribution import install_line, line_for, missing_package, package_of
from herdpy.first_errors import page_of

P = ParamSpec("P")
R = TypeVar("R")

FAILED = 1
USAGE = 2
INTERRUPTED = 130

_LINE_LIMIT = 160


class CliError(Exception):
    """The command cannot go on. ``hint`` says what to do next; ``code`` is the exit code."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


def database_error(error: BaseException) -> BaseException | None:
    """Return what carries the SQLSTATE: the error itself or a cause of it; None if nothing does."""
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, "sqlstate", None):
            return seen
        seen = seen.__cause__
    return None


def render(error: BaseException, statement: str | None = None, where: str | None = None) -> str:
    """Return the lines for people that tell of ``error``.

    Args:
        statement: the SQL that failed, for the line with the caret.
        where: which statement it was, such as ``load.sql:12``.
    """
    prefix = f"{where}: " if where else ""
    if isinstance(error, CliError):
        first = f"{prefix}error: {error.message}"
        return _joined(first, None, None, error.hint, page_of(error.message))
    found = database_error(error)
    if found is None:
        return f"{prefix}ERROR: {type(error).__name__}: {error}"
    message = str(getattr(found, "message", None) or str(found).split("\nDETAIL:")[0].split("\nHINT:")[0])
    position = getattr(found, "position", None)
    caret = point_at(statement, position) if statement and isinstance(position, int) else None
    outcome = getattr(found, "outcome", "not done")
    hint = getattr(found, "hint", None)
    if outcome == "unknown":
        unknown = "It is not known whether this took effect: look before you run it again."
        hint = f"{hint} {unknown}" if hint else unknown
    return _joined(
        f"{prefix}ERROR:  {getattr(found, 'sqlstate', '')}: {message}",
        caret,
        getattr(found, "detail", None),
        hint,
        page_of(message, getattr(found, "sqlstate", None)),
    )


def point_at(statement: str, position: int) -> str | None:
    """Return the line of ``statement`` that holds the 1-based character, and a caret under it."""
    from rich.cells import cell_len

    offset = position - 1
    if not 0 <= offset <= len(statement):
        return None
    begin = statement.rfind("\n", 0, offset) + 1
    end = statement.find("\n", offset)
    line = statement[begin : len(statement) if end < 0 else end]
    column = offset - begin
    left = 0
    if len(line) > _LINE_LIMIT:  # show the neighbourhood only
        left = max(0, min(column - _LINE_LIMIT // 2, len(line) - _LINE_LIMIT))
        line = line[left : left + _LINE_LIMIT]
    line = line.replace("\t", " ")
    label = f"LINE {statement.count(chr(10), 0, begin) + 1}: " + ("..." if left else "")
    indent = cell_len(label + line[: column - left])
    return f"{label}{line}\n{' ' * indent}^"


def _joined(
    first: str, caret: str | None, detail: str | None, hint: str | None, page: str | None = None
) -> str:
    lines = [first]
    if caret:
        lines.append(caret)
    if detail:
        lines.append(f"DETAIL:  {detail}")
    if hint:
        lines.append(f"HINT:  {hint}")
    if page:
        lines.append(f"PAGE:  {page}")
    return "\n".join(lines)


def without_package(error: ImportError, extra: str | None = None) -> CliError | None:
    """What to install where a package of others' is missing; None: the error is another.

    Args:
        extra: the one that the command needs; None: the one that brings that package.
    """
    name = missing_package(error)
    if name is None:
        # The driver and the BookKeeper client say themselves what to install.
        return CliError(str(error)) if _says_what(error) else None
    hint = f"{install_line(extra) if extra else line_for(name)} brings it."
    return CliError(f"this needs the Python package {package_of(name)}, which is not installed", hint=hint)


def _says_what(error: BaseException) -> bool:
    return "pip install " in str(error)


def print_note(text: str) -> None:
    """Print ``text`` to standard error: progress notes, warnings and failures, never results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Make a command tell its failures and end with the right exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        import typer

        try:
            return command(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(exit_code(error)) from error

    return run


def exit_code(error: Exception | KeyboardInterrupt) -> int:
    """Tell the failure of a command; the code that the process ends with. A defect is raised again."""
    if isinstance(error, CliError):
        print_note(render(error))
        return error.code
    if isinstance(error, KeyboardInterrupt):
        print_note("interrupted")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of standard output has closed it (``herdpy ... | head``): no word of that. What is still
        # buffered would fail again when the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    if isinstance(error, ImportError) and (readable := without_package(error)) is not None:
        print_note(render(readable))
        return FAILED
    if database_error(error) is None and not isinstance(error, OSError):
        if not _says_what(error):
            raise error
        error = CliError(str(error))
    print_note(render(error))
    return FAILED


@contextmanager
def handled(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Signals call ``handler``, and afterwards what they called before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def interruptible() -> AbstractContextManager[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    return handled(interrupt, signal.SIGTERM, signal.SIGHUP)
