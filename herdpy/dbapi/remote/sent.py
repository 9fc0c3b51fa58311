"""What is sent to a server in one piece: statements, and copies of many rows. Below ``wire``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import pq

from herdpy.dbapi.remote.values import Parameters, dump

if TYPE_CHECKING:
    from herdpy.dbapi.remote.wire import Wire

Step = tuple[str, Parameters]

_TEXT = 25
"""PostgreSQL's object id of TEXT."""


def step(sql: str, *params: object) -> Step:
    """A statement with its parameters."""
    return sql, dump(params)


def named(one: Step, request_id: str) -> Step:
    """A statement that brings the name of the commit that it is, or is part of, as its last parameter."""
    sql, params = one
    return (
        f"AS REQUEST ${len(params.values) + 1} {sql}",
        Parameters(
            (*params.values, request_id.encode()),
            (*params.types, _TEXT),
            (*params.formats, pq.Format.TEXT),
        ),
    )


class Request(Protocol):
    """What a request is for, to be sent once, or again on another connection."""

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """Send it with these steps before it; the results, of which the last may be an error.

        Args:
            request_id: the name of the commit that it is; "" when it is none, or one without a name.
        """


class Steps:
    """Statements, in one piece with those before them."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """See Request."""
        if not request_id:
            return wire.run([*before, *self._steps])
        first, *rest = self._steps
        return wire.run([*before, named(first, request_id), *rest])


def _run_before(wire: Wire, before: list[Step], request_id: str) -> list[Any]:
    """What comes before a COPY, which takes no parameters: so its name is a statement's of its own."""
    if request_id:
        before = [*before, step("SELECT herdpy.use_request_id($1)", request_id)]
    return wire.run(before) if before else []


class CopyIn:
    """A COPY ... FROM STDIN and its data, after those before it."""

    def __init__(self, sql: str, pieces: Sequence[Any]) -> None:
        self._sql = sql
        self._pieces = pieces

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """See Request."""
        results = _run_before(wire, before, request_id)
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

    def send(self, wire: Wire, before: list[Step], request_id: str = "") -> list[Any]:
        """See Request."""
        self.data.clear()  # of an attempt whose connection broke
        results = _run_before(wire, before, request_id)
        if results and results[-1].status == pq.ExecStatus.FATAL_ERROR:
            return results
        return [*results, wire.copy_out(self._sql, self.data.append)]
