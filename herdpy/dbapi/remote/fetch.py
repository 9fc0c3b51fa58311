"""Answers of servers as Arrow: the query goes as ``COPY (query) TO STDOUT (FORMAT arrow)``. Below ``remote``.

COPY takes no parameters, so they are written into the text as psycopg writes literals of them, with their
types. What is no query (SHOW, EXPLAIN, INSERT ... RETURNING) is run as it is, and its rows are made to Arrow
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy.dbapi import scanner
from herdpy.dbapi.link import ArrowResult, Result
from herdpy.dbapi.remote.requests import Requests
from herdpy.dbapi.remote.sent import CopyOut, Request, Steps
from herdpy.dbapi.remote.statements import StatementKind, chains, first_word, kind_of
from herdpy.dbapi.remote.values import RemoteResult, Told, dump, literal
from herdpy.dbapi.remote.words import without_end

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Translation

_QUERIES = frozenset({"SELECT", "VALUES", "TABLE", "WITH"})
_COPY, _AS_ARROW = "COPY (", "\n) TO STDOUT (FORMAT arrow)"


class ArrowFetches(Requests):
    """Sends queries whose rows come as Arrow."""

    def execute_arrow(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> Result:
        """Run one statement whose rows are wanted as Arrow alone."""
        kind = kind_of(sql)
        if self._is_lost():
            return self._in_lost(kind, chained=chains(sql))
        if first_word(sql) not in _QUERIES or kind is StatementKind.OTHER:
            request: Request = Steps([(sql, dump(params))])
            results = self._request(sql, kind, request, source)
            if isinstance(results, Told):
                return results
            plain = RemoteResult(results[-1])
            return plain if plain.columns is None else ArrowResult(plain.tag, plain.arrow(), plain.columns)
        text = without_end(with_literals(sql, params))
        copy = CopyOut(_COPY + text + _AS_ARROW)
        results = self._request(sql, kind, copy, None)
        if isinstance(results, Told):
            return results
        from herdpy.dbapi.remote.arrow import columns_of, read_stream

        table = read_stream(copy.data)
        return ArrowResult(f"SELECT {table.num_rows}", table, columns_of(table.schema))


def with_literals(sql: str, params: Sequence[object]) -> str:
    """A statement with its parameters in place of ``$1``, ``$2`` ..."""
    if not params:
        return sql
    literals = [literal(one) for one in params]
    pieces, taken = [], 0
    for kind, start, end, match in scanner.tokens(sql, placeholders=False):
        if kind == scanner.DOLLAR:
            number = int(match.group()[1:])
            if 1 <= number <= len(literals):
                pieces += [sql[taken:start], literals[number - 1]]
                taken = end
    return "".join([*pieces, sql[taken:]])
