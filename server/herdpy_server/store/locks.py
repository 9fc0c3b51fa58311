"""Store layer, the edge to transactions: what a workspace asks of the lock table.

Keys are locked by database: a table's rows by their keys, a unique index's entries by theirs, and
the catalog as a whole by one lock in database 0.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

CATALOG_DATABASE = 0
CATALOG_KEY = b"catalog"


class Locks(Protocol):
    """Grants locks to transactions ("owners") until they end. Owners may ask again for what they have.

    Every method returns when the owner has what it asked for, and raises ``MustWait`` when another
    transaction has it; what was granted before that stays granted.
    """

    def acquire(self, owner: Any, database_id: int, key: bytes) -> None:
        """The lock of one key."""

    def acquire_many(self, owner: Any, database_id: int, keys: Collection[bytes]) -> None:
        """The locks of many keys; may be granted as the lock of the whole database."""

    def acquire_table(self, owner: Any, database_id: int) -> None:
        """All keys of a database, present and future: no other transaction has or gets any."""


class NoLocks:
    """Grants everything: for one transaction at a time (recovery, tests, tools)."""

    def acquire(self, owner: Any, database_id: int, key: bytes) -> None:
        """Granted."""

    def acquire_many(self, owner: Any, database_id: int, keys: Collection[bytes]) -> None:
        """Granted."""

    def acquire_table(self, owner: Any, database_id: int) -> None:
        """Granted."""
