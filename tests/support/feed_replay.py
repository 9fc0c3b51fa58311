"""A feed's rows applied to an empty table, which must then be the table they are from."""

from __future__ import annotations

from typing import Any


class Replica:
    """A table made of nothing but the rows of a feed; every row is checked against what is there.

    Attributes:
        rows: the visible columns of each row by key; None where there is no table.
        last: the sequence of the last row.
    """

    def __init__(self, rows: dict[Any, Any] | None = None) -> None:
        self.rows = rows
        self.last: tuple[int, ...] = ()

    def apply(self, change: dict[str, Any]) -> None:
        """Apply one row of the feed, as a dictionary."""
        sequence = tuple(change["sequence"].values())
        assert sequence > self.last, f"{sequence} after {self.last}"
        self.last = sequence
        assert change["lsn"] == f"{sequence[0]}:{sequence[1]}"
        assert change["transaction_id"] == f"{change['lsn']}/{sequence[2]}"
        assert change["position"] == sequence[3]
        op, key, after = change["op"], change["key"], change["after"]
        assert (key is not None) == (op in {"insert", "update", "delete"})
        assert (after is not None) == (op in {"insert", "update"})
        assert (change["schema"] is not None) == (op in {"create", "alter", "drop"})
        if op == "create":
            assert self.rows is None
            self.rows = {}
        elif op == "truncate":  # where there is no table, a state begins
            self.rows = {}
        elif op == "drop":
            assert self.rows is not None
            self.rows = None
        elif op != "alter":
            self._row(op, tuple(key.items()), key, after, change["before"])

    def _row(self, op: str, name: Any, key: dict[str, Any], after: Any, before: Any) -> None:
        assert self.rows is not None
        if op == "insert":
            assert name not in self.rows
        else:
            old = self.rows.pop(name)
            assert before is None or before == old
        if op != "delete":
            assert after is not None
            assert all(after[column] == value for column, value in key.items() if column in after)
            self.rows[name] = after

    def values(self) -> list[tuple[Any, ...]] | None:
        """The rows as tuples, sorted by their text; None where there is no table."""
        if self.rows is None:
            return None
        return sorted((tuple(row.values()) for row in self.rows.values()), key=repr)
