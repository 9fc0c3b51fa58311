"""Statements that one connection has prepared, by text and types. Below ``wire``, whose requests they go in.

What comes again is prepared on the way, in the same request. The oldest gives way when there are many.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from herdpy.dbapi.remote.values import Parameters

Key = tuple[str, tuple[int, ...]]
"""A statement: its text, and the object ids of its parameters' types."""

PREPARE_AFTER = 2
"""A statement is prepared when it is sent for this many times."""
MOST_PREPARED = 200


class PreparedStatements:
    """The prepared statements of a connection, and how often those were sent that are not."""

    def __init__(self, pgconn: Any) -> None:
        self._pgconn = pgconn
        self._seen: OrderedDict[Key, int] = OrderedDict()
        self._names: OrderedDict[Key, bytes] = OrderedDict()
        self._made = 0

    def enqueue(
        self,
        commands: deque[Callable[[], None]],
        wanted: list[bool],
        fresh: list[Key],
        sql: str,
        params: Parameters,
    ) -> None:
        """Add the commands of one statement to those of a request.

        Args:
            commands: what libpq is to be called with, in order.
            wanted: for each of them, whether its result is the statement's.
            fresh: gets the statement, when the request prepares it.
        """
        pgconn = self._pgconn
        key = (sql, params.types)
        name = self._names.get(key)
        if name is None:
            count = self._seen[key] = self._seen.pop(key, 0) + 1
            if len(self._seen) > 10 * MOST_PREPARED:
                self._seen.popitem(last=False)
            if count < PREPARE_AFTER:
                text = sql.encode()
                commands.append(
                    lambda: pgconn.send_query_params(text, params.values, params.types, params.formats)
                )
                wanted.append(True)
                return
            self._made += 1
            name = self._names[key] = b"herdpy_%d" % self._made
            fresh.append(key)
            named = name
            commands.append(lambda: pgconn.send_prepare(named, sql.encode(), params.types))
            wanted.append(False)
            if len(self._names) > MOST_PREPARED:
                old = self._names.popitem(last=False)[1]
                commands.append(lambda: pgconn.send_query_params(b"DEALLOCATE " + old, None))
                wanted.append(False)
        else:
            self._names.move_to_end(key)
        ready = name
        commands.append(lambda: pgconn.send_query_prepared(ready, params.values, params.formats))
        wanted.append(True)

    def ready(self, sql: str, params: Parameters) -> bytes | None:
        """The name under which a statement is prepared already; None when it is not."""
        key = (sql, params.types)
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        return name

    def unsure_of(self, fresh: Iterable[Key]) -> None:
        """The request that prepares these has failed; which of them were prepared is not worth knowing."""
        for key in fresh:
            self._names.pop(key, None)

    def forget(self) -> bool:
        """Prepare all anew when they come again; whether any was prepared."""
        had = bool(self._names)
        self._names.clear()
        return had
