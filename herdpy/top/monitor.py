"""A session with one of several servers, which moves on to another when its server goes.

Above ``sample``, below ``screen`` and the command. Everything is asyncio: one session, one statement at a
time, each with an end, so that closing it never waits for a server that is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING, Any

from herdpy.top.sample import HEAD, QUERIES, Row, ServerSample

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from herdpy.dbapi.options import RemoteOptions

_CONNECT_TIMEOUT_S = 5
_STATEMENT_TIMEOUT_S = 5.0
_ANSWER_TIMEOUT_S = 10.0
"""A server that is silent for so long is taken for lost."""
_LOST = ("57P", "08")
_GOING = "the database system is"
"""So begins what a server says that starts or stops: 57P03, which libpq gives as text."""
_NOT_HERE = frozenset({"42P01", "42883", "42703", "42501", "0A000", "55000", "57014"})
"""What a server says that lacks a view, or does not show it to this role: the rest is shown nevertheless."""


class LostServerError(Exception):
    """No server answers; the message names each and what is wrong."""


class ServerRefusedError(Exception):
    """A server answered, and refused: a wrong password, no such tablespace, a right that is missing.

    Attributes:
        sqlstate: of the refusal; "" where it was none of a statement.
    """

    def __init__(self, message: str, sqlstate: str = "") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class Monitor:
    """Samples of the servers that ``options`` name.

    Attributes:
        server: host:port that answers now; "" for none.
    """

    def __init__(self, options: RemoteOptions) -> None:
        self.server = ""
        self._options = options
        self._connection: AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()
        self._after: str | None = None

    async def sample(self) -> ServerSample:
        """What a server says now: the one of the sample before, or else the next that lets us in.

        Raises:
            LostServerError: none does; the next call tries again.
            ServerRefusedError: every server refuses, or this one refuses even to say what time it is.
        """
        async with self._turn:
            if self._connection is None:
                await self._connect()
            try:
                async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                    return await self._sampled()
            except (TimeoutError, OSError) as error:
                await self._lose()
                raise LostServerError(f"{self._after} does not answer") from error

    async def act(self, function: str, pid: int) -> bool:
        """Cancel or terminate a session of this server, as ``pg_cancel_backend`` and the like do.

        Returns:
            Whether there was such a session.

        Raises:
            ServerRefusedError: 42501 and the like. LostServerError: the server went.
        """
        assert function in ("pg_cancel_backend", "pg_terminate_backend")
        async with self._turn:
            if self._connection is None:
                raise LostServerError("no server answers")
            try:
                async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                    (row,) = await self._rows(f"SELECT {function}({pid:d}) AS done")
            except (TimeoutError, OSError) as error:
                await self._lose()
                raise LostServerError(f"{self._after} does not answer") from error
            return bool(row["done"])

    async def move(self) -> None:
        """Leave this server: the next sample is of the one behind it in the list."""
        async with self._turn:
            await self._lose()

    async def close(self) -> None:
        """End the session; it is of no further use."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _sampled(self) -> ServerSample:
        (head,) = await self._rows(HEAD)
        parts: dict[str, list[Row]] = {}
        notes: dict[str, str] = {}
        for name, statement in QUERIES.items():
            try:
                parts[name] = await self._rows(statement)
            except ServerRefusedError as error:
                if error.sqlstate not in _NOT_HERE:
                    raise
                parts[name], notes[name] = [], str(error)
        return ServerSample(self.server, head, parts, notes)

    async def _rows(self, statement: str) -> list[Row]:
        import psycopg
        from psycopg.rows import dict_row

        assert self._connection is not None
        try:
            async with self._connection.cursor(row_factory=dict_row) as cursor:
                await cursor.execute(statement.encode())
                return await cursor.fetchall()
        except psycopg.Error as error:
            message = (error.diag.message_primary or str(error)).strip()
            if error.sqlstate is None or error.sqlstate.startswith(_LOST):
                await self._lose()
                raise LostServerError(f"{self._after} is lost: {message}") from error
            raise ServerRefusedError(f"{error.sqlstate}: {message}", error.sqlstate) from error

    async def _lose(self) -> None:
        self._after, self.server = self.server or self._after, ""
        with contextlib.suppress(OSError):
            await self.close()

    async def _connect(self) -> None:
        """A session with the next server after the one that was left, at first with the one that leads."""
        import psycopg

        hosts = await self._hosts()
        names = [f"{host}:{port}" for host, port in hosts]
        first = names.index(self._after) + 1 if self._after in names else 0
        order = [*range(first, len(hosts)), *range(first)]
        wrong: list[str] = []
        refused = True
        for prefers_leader in (self._after is None and len(hosts) > 1, False):
            for at in order:
                try:
                    self._connection = await self._open(*hosts[at], leader=prefers_leader)
                except psycopg.Error as error:
                    refused = refused and "FATAL" in str(error) and _GOING not in str(error)
                    wrong.append(f"{names[at]}: {_short(error)}")
                else:
                    self.server = names[at]
                    return
            if not prefers_leader:
                break
            wrong.clear()
        text = "; ".join(dict.fromkeys(wrong)) or "no server is known"
        raise ServerRefusedError(text) if refused and wrong else LostServerError(text)

    async def _hosts(self) -> list[tuple[str, int]]:
        from herdpy.dbapi.errors import Error
        from herdpy.dbapi.remote.hosts import hosts_of

        until = time.monotonic() + self._options.connect_timeout_s
        try:
            return await asyncio.to_thread(hosts_of(self._options).known, until)
        except Error as error:
            raise LostServerError(error.message) from error

    async def _open(self, host: str, port: int, *, leader: bool) -> AsyncConnection[Any]:
        from psycopg import AsyncConnection

        options = self._options
        given: dict[str, Any] = dict(options.libpq)
        given |= {
            name: value for name in ("user", "password") if (value := getattr(options, name)) is not None
        }
        connection = await AsyncConnection.connect(
            host=host,
            port=port,
            dbname=options.database,
            application_name="herdpy top",
            target_session_attrs="read-write" if leader else "any",
            connect_timeout=max(1, math.ceil(min(options.connect_timeout_s, _CONNECT_TIMEOUT_S))),
            autocommit=True,
            **given,
        )
        await connection.execute(f"SET statement_timeout = {int(_STATEMENT_TIMEOUT_S * 1000)}".encode())
        return connection


def _short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    failed = [line.rpartition("failed: ")[2] for line in lines if "failed: " in line]
    return (failed or lines or [type(error).__name__])[0]
