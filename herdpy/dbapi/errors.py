"""The driver's exceptions: PEP 249's classes, each with what PostgreSQL would say.

Errors of the engine come in one class with a SQLSTATE (``herdpy_sql.errors.SqlError``);
here it becomes the PEP 249 class that psycopg's users expect. Misuse of the
driver itself is raised here directly.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Outcome = Literal["not done", "done", "unknown"]

_NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class Warning(Exception):  # noqa: N818 - PEP 249's name
    """PEP 249's warning. The driver raises none."""


class Error(Exception):
    """Whatever the driver raises.

    Attributes:
        sqlstate: PostgreSQL's five characters, or None for misuse that has no SQLSTATE.
        message: the primary message alone; ``str()`` adds detail and hint.
        detail, hint: further lines, or None.
        position: 1-based character offset into the statement as it was passed, or None.
        retryable: the same transaction may well succeed when run again from its start.
        outcome: "not done" (no effect), "done", or "unknown" (08007: ask the database again).
        fields: schema, table, column, constraint or datatype concerned, by those names.
    """

    def __init__(
        self,
        message: str = "",
        *,
        sqlstate: str | None = None,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        retryable: bool = False,
        outcome: Outcome = "not done",
        fields: Mapping[str, str] = _NO_FIELDS,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint
        self.position = position
        self.retryable = retryable
        self.outcome: Outcome = outcome
        self.fields = dict(fields)

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)


class InterfaceError(Error):
    """The driver was used wrongly: a closed cursor, a URL it does not know."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value is wrong: out of range, not of its type, not UTF-8 (SQLSTATE 22xxx)."""


class OperationalError(DatabaseError):
    """The database could not: locks, disk, cancellation, serialization (08, 40, 53-58)."""


class IntegrityError(DatabaseError):
    """A constraint forbids it (23xxx)."""


class InternalError(DatabaseError):
    """The state forbids it, such as a failed transaction (25xxx), or a defect (XX000)."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: syntax, unknown names, parameters that do not fit (42xxx)."""


class NotSupportedError(DatabaseError):
    """Valid, but not offered (0A000)."""


# SQLSTATE class (PostgreSQL's manual, appendix A), or a single one -> PEP 249 class. Grouped as by psycopg.
_CLASSES: dict[str, type[DatabaseError]] = {
    state: error
    for states, error in (
        ("0A", NotSupportedError),
        ("22", DataError),
        ("23 HP", IntegrityError),
        ("24 25 2B 2D XX", InternalError),
        ("0L 20 21 26 34 3D 3F 42 44 P0", ProgrammingError),
        ("08 27 28 2F 38 39 3B 40 53 54 55 57 58 72 F0 HV HP003", OperationalError),
    )
    for state in states.split()
}


def class_of(sqlstate: str) -> type[DatabaseError]:
    """The PEP 249 class of a SQLSTATE; DatabaseError for classes PostgreSQL does not have."""
    return _CLASSES.get(sqlstate) or _CLASSES.get(sqlstate[:2], DatabaseError)


def translated(error: Exception) -> DatabaseError:
    """The driver's exception for whatever the engine raised."""
    from herdpy_sql.errors import SqlError

    if isinstance(error, DatabaseError):
        return error
    if isinstance(error, SqlError):
        return class_of(error.sqlstate)(
            error.message,
            sqlstate=error.sqlstate,
            detail=error.detail,
            hint=error.hint,
            position=error.position,
            retryable=error.retryable,
            outcome=error.outcome,  # type: ignore[arg-type]
            fields=error.fields,
        )
    if isinstance(error, RecursionError):
        return OperationalError("stack depth limit exceeded", sqlstate="54001")
    if isinstance(error, MemoryError):
        return OperationalError("out of memory", sqlstate="53200")
    if isinstance(error, OSError):
        return OperationalError(str(error), sqlstate="53100" if error.errno == errno.ENOSPC else "58030")
    return InternalError(f"internal error: {type(error).__name__}: {error}", sqlstate="XX000")


class ErrorClasses:
    """What every kind of connection has; see PEP 249, optional extensions."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError
