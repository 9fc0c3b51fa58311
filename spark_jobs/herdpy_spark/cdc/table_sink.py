"""Changes into a table of another database: its rows and their position, in one transaction.

Above ``sinks``. A batch of changes is carried out by key, in order, and the row of ``herdpy_changes`` that
has the offset of the feed moves in the same transaction, from the offset that this run began with. So a run
that dies leaves the whole batch or nothing, and of two runs at once one fails. Values go as SQL's texts,
which the table's own types read. Columns that the followed table gets or renames, the table gets and renames.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import herdpy
from herdpy_spark.cdc.messages import Message
from herdpy_spark.cdc.sinks import SinkError
from herdpy_spark.feed.driver import Offset
from herdpy_sql.catalog import Table, names_meant
from herdpy_sql.definitions import decode_table

POSITIONS = "herdpy_changes"
_MADE = (
    f"CREATE TABLE IF NOT EXISTS {POSITIONS} (target TEXT PRIMARY KEY, source TEXT NOT NULL, position TEXT)"
)
_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class ChangesTable:
    """``ChangesSink``: takes what ``JsonLines`` makes.

    Args:
        url: of the database, or its directory.
        name: of the table, as ``names_meant`` takes it; it is made if it is not there.
        like: the followed table as it is now; None: there is none.
        identity: whose changes the table has; one that has another's is refused.

    Raises:
        SinkError: the database refuses, the table has another's changes, or cannot be made.
    """

    is_atomic = True

    def __init__(self, url: str, name: str, like: Table | None, identity: dict[str, str]) -> None:
        self._source = json.dumps(identity, sort_keys=True)
        with _refusals():
            self._connection: Any = herdpy.connect(url)
        self._position: Offset | None = None
        self._table: Table | None = None
        self._types: dict[str, str] = {}
        try:
            with _refusals():
                self._target = self._open(name, like)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str, like: Table | None) -> str:
        """The table as SQL names it, and ready; its position is known."""
        self._run(_MADE)
        target = self._found(name)
        if target is None:
            if like is None:
                raise SinkError(
                    f'there is no table "{name}" to write to, and none to follow whose like to make'
                )
            schema, own = names_meant(name)[-1]
            target = f"{_quoted(schema)}.{_quoted(own)}"
            self._run(_statement_of(target, like))
        rows = self._run(f"SELECT source, position FROM {POSITIONS} WHERE target = %s", (target,)).fetchall()
        if rows and rows[0][0] != self._source:
            raise SinkError(
                f"{target} has changes of {rows[0][0]}, not of {self._source}: name another table"
            )
        if rows and rows[0][1] is not None:
            self._position = Offset.from_json(json.loads(rows[0][1]))
            self._table = self._position.table
        elif self._run(f"SELECT 1 FROM {target} LIMIT 1").fetchall():
            raise SinkError(
                f"{target} has rows, and {POSITIONS} no position of theirs: empty it, or name another table"
            )
        if not rows:
            self._run(f"INSERT INTO {POSITIONS} VALUES (%s, %s, NULL)", (target, self._source))
        self._connection.commit()
        return target

    def _found(self, name: str) -> str | None:
        for schema, own in names_meant(name):
            text = f"{_quoted(schema)}.{_quoted(own)}"
            (found,) = self._run("SELECT to_regclass(%s) IS NOT NULL", (text,)).fetchone()
            if found:
                return text
        return None

    def position(self) -> Offset | None:
        """Where the table's rows end."""
        return self._position

    def write(self, messages: Iterable[Message], end: Offset) -> int:
        """Carry the changes out, and commit them with their position."""
        count, table = 0, self._table
        try:
            with _refusals():
                self._types = dict(self._run(_COLUMNS, (self._target,)).fetchall())
                for message in messages:
                    assert message.value is not None
                    self._change(json.loads(message.value))
                    count += 1
                self._move(end)
                self._connection.commit()
        except BaseException:
            self._table = table
            self._rollback()
            raise
        self._position, self._table = end, end.table
        return count

    def _move(self, end: Offset) -> None:
        before = None if self._position is None else json.dumps(self._position.to_json())
        moved = self._run(
            f"UPDATE {POSITIONS} SET position = %s WHERE target = %s AND source = %s"
            " AND position IS NOT DISTINCT FROM %s",
            (json.dumps(end.to_json()), self._target, self._source, before),
        )
        if moved.rowcount != 1:
            raise SinkError(
                f"another process writes to {self._target}: its position is not where this run was"
            )

    def _rollback(self) -> None:
        try:
            self._connection.rollback()
        except herdpy.Error:  # the connection is gone, and with it the transaction
            self._connection.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    # Changes.

    def _change(self, change: dict[str, Any]) -> None:
        op, key, after = change["op"], change["key"], change["after"]
        if op in ("insert", "update"):
            self._put(key, after)
        elif op == "delete":
            where = " AND ".join(f"{_quoted(name)} = %s" for name in key)
            self._run(f"DELETE FROM {self._target} WHERE {where}", self._texts(key))
        elif op == "alter":
            self._alter(decode_table(change["schema"].encode()), after, change["schema"])
        else:  # truncate, create, drop
            self._run(f"DELETE FROM {self._target}")
            if op == "create":
                self._table = decode_table(change["schema"].encode())
                self._add(self._table, [self._table.columns[at].name for at in self._table.visible])

    def _put(self, key: dict[str, Any], after: dict[str, Any]) -> None:
        unknown = [name for name in after if name not in self._types]
        if unknown:
            raise SinkError(f"{self._target} has no column {', '.join(unknown)}: add it, and run again")
        names = ", ".join(map(_quoted, after))
        others = [_quoted(name) for name in after if name not in key]
        change = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {change}" if others else "NOTHING"
        self._run(
            f"INSERT INTO {self._target} ({names}) VALUES ({', '.join(['%s'] * len(after))})"
            f" ON CONFLICT ({', '.join(map(_quoted, key))}) DO {action}",
            self._texts(after),
        )

    def _alter(self, table: Table, after: dict[str, Any] | None, schema: str) -> None:
        """What an ALTER TABLE of the followed table is to this one. SinkError: that is left to its owner."""
        before = self._table
        if before is not None:
            for old, new in zip(before.columns, table.columns, strict=False):
                if old.visible and new.visible and str(old.type) != str(new.type):
                    self._check_type(new.name, str(new.type))
                if old.visible and new.visible and old.name != new.name:
                    self._rename(old.name, new.name)
        self._table = table
        added = json.loads(schema).get("added", [])
        self._add(table, added)
        for name in added:
            assert after is not None
            (text,) = self._texts({name: after[name]})
            self._run(f"UPDATE {self._target} SET {_quoted(name)} = %s", (text,))

    def _check_type(self, name: str, kind: str) -> None:
        if self._types.get(name) != kind:
            raise SinkError(
                f"column {name} of the followed table is {kind} now, and {self._types.get(name)} in"
                f" {self._target}: ALTER TABLE {self._target} ALTER COLUMN {_quoted(name)} TYPE {kind},"
                " and run again"
            )

    def _rename(self, old: str, new: str) -> None:
        if new in self._types:  # the table was made like the one that is there now
            if old in self._types:
                self._run(f"UPDATE {self._target} SET {_quoted(new)} = {_quoted(old)}")
            return
        self._run(f"ALTER TABLE {self._target} RENAME COLUMN {_quoted(old)} TO {_quoted(new)}")
        self._types[new] = self._types.pop(old)

    def _add(self, table: Table, names: list[str]) -> None:
        types = {table.columns[at].name: str(table.columns[at].type) for at in table.visible}
        for name in names:
            if name not in self._types:
                self._run(f"ALTER TABLE {self._target} ADD COLUMN {_quoted(name)} {types[name]}")
                self._types[name] = types[name]

    def _texts(self, values: Mapping[str, Any]) -> list[str | None]:
        return [_text(value, self._types.get(name, "")) for name, value in values.items()]

    def _run(self, statement: str, parameters: Any = ()) -> Any:
        return self._connection.execute(statement, parameters) if parameters else self._connection.execute(
            statement
        )  # fmt: skip


@contextmanager
def _refusals() -> Iterator[None]:
    """Errors of the database are the sink's."""
    try:
        yield
    except herdpy.Error as error:
        raise SinkError(f"the table refuses: {error}") from error


def _statement_of(target: str, like: Table) -> str:
    """CREATE TABLE. SinkError: rows have no key by which to follow them."""
    if like.has_hidden_key:
        raise SinkError(f"table {like.name} has no primary key: its changes cannot be carried out by key")
    columns = [f"{_quoted(like.columns[at].name)} {like.columns[at].type}" for at in like.visible]
    key = ", ".join(_quoted(like.columns[at].name) for at in like.key_positions)
    return f"CREATE TABLE {target} ({', '.join(columns)}, PRIMARY KEY ({key}))"


def _text(value: Any, kind: str) -> str | None:
    """A value of JSON as the type's input function reads it."""
    if value is None:
        return None
    if isinstance(value, list):
        if kind.startswith("vector") and not kind.endswith("]"):
            return "[" + ",".join(str(_text(one, "real")) for one in value) + "]"
        return "{" + ",".join(_element(one, kind.removesuffix("[]")) for one in value) + "}"
    if kind == "bytea":
        return "\\x" + b64decode(value).hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    return str(value)


def _element(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    text = _text(value, kind)
    if isinstance(value, list):
        return str(text)
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
