"""What a server says in an error, as the driver's exceptions; and the connection that is no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.pq import DiagnosticField as Field

from herdpy.dbapi.errors import DatabaseError, Error, OperationalError, Outcome, class_of
from herdpy.dbapi.notices import Notice
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Translation

_FIELDS = {
    "schema": Field.SCHEMA_NAME,
    "table": Field.TABLE_NAME,
    "column": Field.COLUMN_NAME,
    "datatype": Field.DATATYPE_NAME,
    "constraint": Field.CONSTRAINT_NAME,
}
_LOST = "the connection was lost, and the transaction with it"
_NOT_LEADING = frozenset({"57P01", "57P03", "08007", "HP003"})


class ConnectionLostError(Exception):
    """The connection broke, or its server fell silent; what was sent may have been carried out or not."""


def error_of(result: Any, source: Translation | None = None) -> DatabaseError:
    """The exception for a result that is an error. ConnectionLostError when it is none of the server's."""

    def said(field: Field) -> str | None:
        value: bytes | None = result.error_field(field)
        return None if value is None else value.decode(errors="replace")

    state = said(Field.SQLSTATE)
    if state is None:
        raise ConnectionLostError(result.get_error_message().strip())
    position = said(Field.STATEMENT_POSITION)
    at = int(position) if position else None
    return class_of(state)(
        said(Field.MESSAGE_PRIMARY) or "",
        sqlstate=state,
        detail=said(Field.MESSAGE_DETAIL),
        hint=said(Field.MESSAGE_HINT),
        position=source.position(at) if source is not None else at,
        retryable=SqlError(state, "").retryable,
        outcome="unknown" if state == "08007" else "not done",
        fields={name: value for name, field in _FIELDS.items() if (value := said(field)) is not None},
    )


def notice_of(result: Any) -> Notice:
    """A result that libpq has made of a notice."""

    def said(field: Field) -> str | None:
        value: bytes | None = result.error_field(field)
        return None if value is None else value.decode(errors="replace")

    return Notice(
        said(Field.SEVERITY_NONLOCALIZED) or said(Field.SEVERITY) or "NOTICE",
        said(Field.SQLSTATE) or "00000",
        said(Field.MESSAGE_PRIMARY) or "",
        said(Field.MESSAGE_DETAIL),
        said(Field.MESSAGE_HINT),
    )


def is_not_leading(error: Error) -> bool:
    """Whether a server says that it does not, or no longer, take what it was sent; another one may."""
    state, message = error.sqlstate, error.message
    return (
        state in _NOT_LEADING
        or (state == "25006" and " lead" in message)
        or (state == "40001" and message.startswith("the leader of "))
    )


def is_undone_by_failover(error: Error) -> bool:
    """Whether a transaction was certainly undone because the leader changed, or the connection broke."""
    if error.outcome != "not done":
        return False
    return is_not_leading(error) or (error.sqlstate == "40001" and error.message.startswith(_LOST))


def is_fatal(result: Any) -> bool:
    """Whether the server closes the connection after this error."""
    return result.error_field(Field.SEVERITY_NONLOCALIZED) in (b"FATAL", b"PANIC")


def is_stale_plan(error: Error) -> bool:
    """Whether a prepared statement was refused because its table is another one by now."""
    return error.sqlstate == "0A000" and "cached plan" in error.message


def is_old_name(error: Error) -> bool:
    """Whether a commit was refused because its name is so old that it may have been used before."""
    return error.sqlstate == "HP002"


def lost_transaction(reason: object) -> OperationalError:
    """The transaction went with its connection: nothing of it was done."""
    return OperationalError(
        f"{_LOST}: nothing of it was done",
        sqlstate="40001",
        detail=str(reason),
        hint="Roll back, and run the transaction again from its start.",
        retryable=True,
    )


def no_answer(reason: object, outcome: Outcome) -> OperationalError:
    """The connection was lost, and this is what is known of the statement."""
    if outcome == "unknown":
        return OperationalError(
            "the connection was lost, and the outcome could not be learnt",
            sqlstate="08007",
            detail=str(reason),
            hint="Look at the rows before it is repeated.",
            outcome="unknown",
        )
    if outcome == "done":
        return OperationalError(
            "the statement is done, but its answer was lost with the connection",
            sqlstate="08006",
            detail=str(reason),
            outcome="done",
        )
    return OperationalError(
        "the connection was lost, and no leader was found in time: nothing was done",
        sqlstate="08006",
        detail=str(reason),
    )


__all__ = [
    "ConnectionLostError",
    "Error",
    "error_of",
    "is_fatal",
    "is_not_leading",
    "is_old_name",
    "is_stale_plan",
    "is_undone_by_failover",
    "lost_transaction",
    "no_answer",
    "notice_of",
]
