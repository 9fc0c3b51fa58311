"""What a drill's tasks leave behind: a row each, written in the transaction that finishes the task.

Layer 4 of the broker, of its drill. The table has no key, so that a task which is done twice has two rows.
"""

from __future__ import annotations

import re
import time
from typing import Any

from herdpy_broker.transactions import Connection

_TABLE = re.compile(r"drill_broker\w*")


def make_table(connection: Connection, table: str) -> None:
    """Make the table of effects."""
    connection.execute(
        f"CREATE TABLE {table} (key BIGINT NOT NULL, task BIGINT NOT NULL, attempt INT NOT NULL,"
        " worker BIGINT NOT NULL, began_s DOUBLE PRECISION NOT NULL, ended_s DOUBLE PRECISION NOT NULL)"
    )


def leave_effect(
    connection: Connection, payload: Any, *, task: int, attempt: int, worker: int, began_s: float
) -> None:
    """Write the effect of a task whose payload names its key and the table; it ends now.

    began_s: on the machine's monotonic clock, when the task had been claimed.
    """
    table, key = str(payload["table"]), int(payload["key"])
    if not _TABLE.fullmatch(table):
        raise ValueError(f"{table!r} is no table of a drill")
    connection.execute(
        f"INSERT INTO {table} VALUES ($1::bigint, $2::bigint, $3::int, $4::bigint, $5::float8, $6::float8)",
        (key, task, attempt, worker, began_s, time.monotonic()),
    )
