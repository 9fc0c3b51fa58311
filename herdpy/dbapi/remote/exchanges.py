"""Exchanges with a server as generators that say what they wait for. Below ``wire``, which drives them.

As psycopg's own generators, which they are made of: each yields what the socket must be ready for (1 to read,
2 to write, 3 either), is sent what it is ready for, and returns the results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from psycopg import generators, pq

FEW_COMMANDS = 16
"""So many are handed to libpq at once; more are, while answers are read, as fast as the socket takes them."""
_READ = 1  # psycopg's Wait.R


def pipelined(pgconn: Any, commands: deque[Callable[[], None]]) -> Generator[Any, Any, list[list[Any]]]:
    """Send the commands, of which the last is Sync; the results of each, up to that of Sync.

    Raises:
        psycopg.OperationalError: the connection broke.
    """
    found: list[list[Any]] = []
    if len(commands) <= FEW_COMMANDS:  # psycopg's generator waits for the socket before each
        for command in commands:
            command()
        commands.clear()
    if commands or pgconn.flush():
        found = yield from generators.pipeline_communicate(pgconn, commands)
    while not (found and found[-1][0].status == pq.ExecStatus.PIPELINE_SYNC):
        found.append((yield from generators.fetch_many(pgconn)))
        if not found[-1]:
            raise psycopg.OperationalError("the connection broke within an answer")
    return found


def after_copy(pgconn: Any) -> Generator[Any, Any, list[Any]]:
    """Send what is left of a COPY's data, whose end was put; its results."""
    yield from generators.send(pgconn)
    found: list[Any] = yield from generators.fetch_many(pgconn)
    return found


def copied(pgconn: Any, take: Callable[[bytes], None]) -> Generator[Any, Any, list[Any]]:
    """Give away the data of a COPY TO STDOUT as it comes; its results."""
    while True:
        size, data = pgconn.get_copy_data(1)
        if size > 0:
            take(bytes(data))
        elif size == 0:
            yield _READ
            pgconn.consume_input()
        else:
            break
    found: list[Any] = yield from generators.fetch_many(pgconn)
    return found
