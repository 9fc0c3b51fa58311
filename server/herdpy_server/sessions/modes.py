"""The modes of a transaction: its isolation level, read only, deferrable. Beside ``block``, which holds it.

They are settings of the transaction (``transaction_isolation`` ...), which begin as the session's defaults
say, and which BEGIN, SET TRANSACTION and SET change until its first query.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions.settings import Settings
    from herdpy_server.tablespace import Transaction

MODES = ("transaction_isolation", "transaction_read_only", "transaction_deferrable")
"""The settings that are a transaction's own."""

LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")


def modes_of(words: Iterable[str]) -> list[tuple[str, str]]:
    """The settings that transaction modes are, as BEGIN and SET TRANSACTION name them (in capitals)."""
    found: list[tuple[str, str]] = []
    for mode in words:
        if mode.startswith("ISOLATION LEVEL "):
            found.append(("transaction_isolation", mode.removeprefix("ISOLATION LEVEL ").lower()))
        elif mode in {"READ ONLY", "READ WRITE"}:
            found.append(("transaction_read_only", "on" if mode == "READ ONLY" else "off"))
        elif mode in {"DEFERRABLE", "NOT DEFERRABLE"}:
            found.append(("transaction_deferrable", "on" if mode == "DEFERRABLE" else "off"))
    return found


def check_mode(
    transaction: Transaction | None, settings: Settings, name: str, value: str, *, nested: bool
) -> None:
    """Before a mode of the open transaction is set: what must come before its first query has to.

    Raises:
        SqlError: 25001.
    """
    if transaction is None or (settings[name] == value and name != "transaction_deferrable"):
        return
    queried = transaction.queried
    if name == "transaction_isolation":
        if queried:
            raise _late("SET TRANSACTION ISOLATION LEVEL must be called before any query")
        if nested:
            raise _late("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
    elif name == "transaction_read_only" and value == "off":
        if nested:
            raise _late("cannot set transaction read-write mode inside a read-only transaction")
        if queried:
            raise _late("transaction read-write mode must be set before any query")
    elif name == "transaction_deferrable":
        if nested:
            raise _late("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
        if queried:
            raise _late("SET TRANSACTION [NOT] DEFERRABLE must be called before any query")


def _late(message: str) -> SqlError:
    return SqlError("25001", message)
