"""The broker's tables, and their version.

Layer 1 of the broker. ``schema.sql`` is version 1; a later version is a step in ``_STEPS``. All steps
that are missing run in one transaction that has ``broker.schema_version`` locked: of two that migrate
at once one does the work and the other finds it done.
"""

from __future__ import annotations

import random
import time
from importlib import resources

import herdpy
from herdpy_broker.errors import SchemaError
from herdpy_broker.transactions import Connection, transaction

_STEPS: tuple[str, ...] = ("schema.sql",)
"""The file of each version, beside this module: the first makes version 1."""

VERSION = len(_STEPS)

_MADE_MEANWHILE = frozenset({"42P06", "42P07", "23505"})
_TRIES = 20


def migrate(connection: Connection) -> None:
    """Make the broker's tables, or bring them to this program's version; does nothing when they have it.

    Raises:
        SchemaError: the tables are of a newer version than this program knows.
    """
    for left in reversed(range(_TRIES)):
        try:
            transaction(connection, _migrate)
            return
        except herdpy.Error as error:
            # Another program made the schema or the version's table between our look and our try.
            if error.sqlstate not in _MADE_MEANWHILE or not left:
                raise
        time.sleep(random.uniform(0.01, 0.1))


def version(connection: Connection) -> int | None:
    """The version of the broker's tables; None when there are none."""
    found = connection.execute("SELECT to_regclass('broker.schema_version') IS NOT NULL").fetchone()
    if not found or not found[0]:
        return None
    row = connection.execute("SELECT max(version) FROM broker.schema_version").fetchone()
    return None if row is None else row[0]


def is_there(connection: Connection) -> bool:
    """Whether the broker's tables are there, in this program's version.

    Raises:
        SchemaError: they are of a newer version.
    """
    found = version(connection)
    _refuse_newer(found)
    return found == VERSION


def _migrate(connection: Connection) -> None:
    connection.execute("CREATE SCHEMA IF NOT EXISTS broker")
    connection.execute("CREATE TABLE IF NOT EXISTS broker.schema_version (version INT PRIMARY KEY)")
    connection.execute("LOCK TABLE broker.schema_version IN ACCESS EXCLUSIVE MODE")
    found = version(connection) or 0
    _refuse_newer(found)
    for number in range(found, VERSION):
        connection.execute(resources.files("herdpy_broker").joinpath(_STEPS[number]).read_text())
        connection.execute("INSERT INTO broker.schema_version VALUES ($1)", (number + 1,))


def _refuse_newer(found: int | None) -> None:
    if found is not None and found > VERSION:
        raise SchemaError(f"the broker's tables are of version {found}; this program knows up to {VERSION}")
