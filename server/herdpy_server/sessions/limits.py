"""How much one session may keep: what a stranger could otherwise fill memory with."""

from __future__ import annotations

from dataclasses import dataclass

from herdpy_sql.errors import SqlError


class ResultSize:
    """How large one answer has become; more than ``most_bytes`` (0: as much as there is) is refused."""

    __slots__ = ("_most_bytes", "_taken_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._taken_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Count a piece of it; SqlError 54000 when it is too much."""
        self._taken_bytes += size_bytes
        if 0 < self._most_bytes < self._taken_bytes:
            raise self._too_large()

    def _too_large(self) -> SqlError:
        return SqlError(
            "54000",
            f"the result is larger than herdpy.max_result_size ({self._most_bytes} bytes)",
            hint="Select fewer rows or columns, or SET herdpy.max_result_size to more, or to 0.",
        )


class HeldSize(ResultSize):
    """How much of a recursive query's answer, which may have no end, is in memory."""

    __slots__ = ()

    def _too_large(self) -> SqlError:
        return SqlError(
            "53200",
            f"out of memory: a recursive query gave more than {self._most_bytes} bytes of rows",
            hint="The recursion may have no end: give it a condition, or the query a LIMIT.",
        )


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one session.

    Attributes:
        statement_bytes: the longest text of statements, in bytes of UTF-8.
        statements: how many prepared statements it may have.
        portals: how many portals, cursors among them.
        large: how many portals with large results.
        custom_settings: how many settings that HerdPy does not know (``SET a.b = ...``).
    """

    statement_bytes: int = 16 << 20
    statements: int = 10_000
    portals: int = 10_000
    large: int = 64
    custom_settings: int = 1_000

    def check_text(self, sql: str) -> None:
        """SqlError 54000 when a text is too long."""
        if 4 * len(sql) > self.statement_bytes and len(sql.encode("utf-8", "replace")) > self.statement_bytes:
            raise SqlError(
                "54000", f"statement is too long: at most {self.statement_bytes} bytes are accepted"
            )

    def check_statements(self, count: int) -> None:
        """SqlError 53400 when one more prepared statement than ``count`` is too many."""
        if count >= self.statements:
            raise _too_many(
                self.statements, "prepared statements", "DEALLOCATE those that are no longer needed."
            )

    def check_portals(self, count: int) -> None:
        """SqlError 53400 when one more portal than ``count`` is too many."""
        if count >= self.portals:
            raise _too_many(self.portals, "portals", "CLOSE cursors that are no longer needed.")

    def check_large(self, count: int) -> None:
        """SqlError 53400 when one more portal with a large answer than ``count`` is too many."""
        if count >= self.large:
            raise _too_many(
                self.large, "portals with large results", "CLOSE cursors that are no longer needed."
            )


def _too_many(most: int, what: str, hint: str) -> SqlError:
    return SqlError("53400", f"a session can have at most {most} {what}", hint=hint)
