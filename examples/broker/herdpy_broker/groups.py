"""Groups of users: their shares of the workers, and their limits.

Layer 1 of the broker. A group needs no row: without one its weight is 1, without a limit.
"""

from __future__ import annotations

from herdpy_broker import values
from herdpy_broker.transactions import Connection, transaction


def set_group(
    connection: Connection,
    name: str,
    weight: int = 1,
    max_running: int | None = None,
    paused: bool = False,
) -> None:
    """Make a group, or set all of its settings.

    Args:
        weight: its share among the groups that have work.
        max_running: so many of its tasks run at a time; None for no limit.
        paused: none of its tasks is given to a worker; running ones go on.
    """
    values.name("a group's name", name)
    values.integer("weight", weight, 1)
    if max_running is not None:
        values.integer("max_running", max_running, 1)
    parameters = (name, weight, max_running, bool(paused))
    transaction(connection, lambda within: within.execute(_SET, parameters))


def change_group(
    connection: Connection,
    name: str,
    *,
    weight: int | None = None,
    max_running: int | None = None,
    paused: bool | None = None,
) -> None:
    """Set what is given of a group, and leave the rest; ``max_running`` 0 is no limit."""

    def change(within: Connection) -> None:
        was = within.execute(_SETTINGS, (name,)).fetchone() or (1, None, False)
        limit = was[1] if max_running is None else max_running or None
        set_group(
            within,
            name,
            was[0] if weight is None else weight,
            limit,
            was[2] if paused is None else paused,
        )

    transaction(connection, change)


_SET = """\
INSERT INTO broker.task_group (name, weight, max_running, paused) VALUES ($1, $2::int, $3::int, $4::boolean)
ON CONFLICT (name) DO UPDATE
SET weight = excluded.weight, max_running = excluded.max_running, paused = excluded.paused"""

_SETTINGS = "SELECT weight, max_running, paused FROM broker.task_group WHERE name = $1 FOR UPDATE"
