"""Types of tasks: how often one is tried, and how long it waits in between.

Layer 1 of the broker. A task keeps its own ``max_attempts``; its type's backoff counts when it fails.
"""

from __future__ import annotations

from herdpy_broker import values
from herdpy_broker.errors import InvalidValueError, NoSuchTypeError
from herdpy_broker.transactions import Connection, transaction


def define(
    connection: Connection,
    name: str,
    max_attempts: int = 3,
    backoff_s: float = 1.0,
    backoff_factor: float = 2.0,
    backoff_most_s: float = 300.0,
) -> None:
    """Make a type, or set all of its settings.

    Args:
        max_attempts: attempts of a task whose submission does not say otherwise.
        backoff_s: seconds before the second attempt; each later wait is ``backoff_factor`` times as long,
            up to ``backoff_most_s``.
    """
    values.name("a type's name", name)
    values.integer("max_attempts", max_attempts, 1)
    values.seconds("backoff_s", backoff_s)
    values.seconds("backoff_most_s", backoff_most_s)
    if values.seconds("backoff_factor", backoff_factor) < 1:
        raise InvalidValueError(f"backoff_factor is at least 1, not {backoff_factor}")
    parameters = (name, max_attempts, backoff_s, backoff_factor, backoff_most_s)
    transaction(connection, lambda within: within.execute(_DEFINE, parameters))


def check_known(connection: Connection, name: str) -> None:
    """Raise NoSuchTypeError where the type was never defined."""
    if connection.execute(_KNOWN, (name,)).fetchone() is None:
        raise NoSuchTypeError(name)


def backoff_s(connection: Connection, name: str, attempts: int) -> float:
    """How many seconds a task of this type waits after so many attempts."""
    row = connection.execute(_BACKOFF, (name,)).fetchone()
    if row is None:
        return 0.0
    first_s, factor, most_s = row
    try:
        return float(min(most_s, first_s * factor ** (attempts - 1)))
    except OverflowError:
        return float(most_s if first_s else 0.0)


_DEFINE = """\
INSERT INTO broker.task_type (name, max_attempts, backoff_s, backoff_factor, backoff_most_s)
VALUES ($1, $2::int, $3::float8, $4::float8, $5::float8)
ON CONFLICT (name) DO UPDATE
SET max_attempts = excluded.max_attempts, backoff_s = excluded.backoff_s,
    backoff_factor = excluded.backoff_factor, backoff_most_s = excluded.backoff_most_s"""

_KNOWN = "SELECT 1 FROM broker.task_type WHERE name = $1"

_BACKOFF = "SELECT backoff_s, backoff_factor, backoff_most_s FROM broker.task_type WHERE name = $1"
