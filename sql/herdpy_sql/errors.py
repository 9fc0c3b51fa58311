"""The error that every layer raises for what PostgreSQL has a SQLSTATE for.

One class: the SQLSTATE says what went wrong, and the driver's PEP 249 classes, the wire's error
fields and retry decisions are all derived from it. ``deterministic`` errors (a constraint, a bad
cast) happen alike on every replica; the others (a lock time-out, a full disk) are this process's.
"""

from __future__ import annotations


class SqlError(Exception):
    """A failed statement.

    Attributes:
        sqlstate: five characters, PostgreSQL's (appendix A of its manual).
        message: the primary message, without a full stop.
        detail, hint: further lines, or None.
        position: 1-based character offset into the statement's text, or None.
        fields: schema, table, column, constraint or datatype concerned, by name.
        outcome: "not done" (the default: the statement had no effect), "done", or "unknown".
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        outcome: str = "not done",
        **fields: str,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
        self.outcome = outcome
        self.fields = fields

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)

    @property
    def retryable(self) -> bool:
        """Whether the same transaction may well succeed when it is run again from its start."""
        return self.sqlstate in {"40001", "40P01", "55P03", "57P03", "72000"}

    @property
    def is_limit(self) -> bool:
        """Whether it says what a transaction may take, or what the machine has, and not what rows are."""
        return self.sqlstate[:2] in {"53", "54", "58"}
