"""What is sent to a server in one piece: statements, and copies of many rows. Below ``wire``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import pq

from herdpy.dbapi.remote.values import Parameters, dump

if TYPE_CHECKING:
    from herdpy.dbapi.remote.wire import Wire

Step = tuple[str, Parameters]


def step(sql: str, *params: object) -> Step:
    """A statement with its parameters."""
    return sql, dump(params)


class Request(Protocol):
    """What a request is for, to be sent once, or again on another connection."""

    def send(self, wire: Wire, before: list[Step]) -> list[Any]:
        """Send it with these steps before it; the results, of which the last may be an error."""


class Steps:
    """Statements, in one piece with those before them."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def send(self, wire: Wire, before: list[Step]) -> list[Any]:
        """See Request."""
        return wire.run([*before, *self._steps])


class CopyIn:
    """A COPY ... FROM STDIN and its data, after those before it."""

    def __init__(self, sql: str, pieces: Sequence[Any]) -> None:
        self._sql = sql
        self._pieces = pieces

    def send(self, wire: Wire, before: list[Step]) -> list[Any]:
        """See Request."""
        results = wire.run(before) if before else []
        if results and results[-1].status == pq.ExecStatus.FATAL_ERROR:
            return results
        return [*results, wire.copy_in(self._sql, self._pieces)]


class CopyOut:
    """A COPY ... TO STDOUT, after those before it.

    Attributes:
        data: what came, in pieces.
    """

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.data: list[bytes] = []

    def send(self, wire: Wire, before: list[Step]) -> list[Any]:
        """See Request."""
        self.data.clear()  # of an attempt whose connection broke
        results = wire.run(before) if before else []
        if results and results[-1].status == pq.ExecStatus.FATAL_ERROR:
            return results
        return [*results, wire.copy_out(self._sql, self.data.append)]
