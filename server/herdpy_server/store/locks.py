"""Store layer, the edge to transactions: what a workspace asks of the lock table.

Keys are locked by database: a table's rows by their keys, a unique index's entries by theirs, and
the catalog as a whole by one lock in database 0.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from herdpy_server.store.spilling import SpillFile
from herdpy_sql.lock_modes import ACCESS_EXCLUSIVE, UPDATE

CATALOG_DATABASE = 0
CATALOG_KEY = b"catalog"


class Locks(Protocol):
    """Grants locks to transactions ("owners") until they end. Owners may ask again for what they have.

    Every method returns when the owner has what it asked for, and raises ``MustWait`` when another
    transaction has it; what was granted before that stays granted.
    """

    def acquire(self, owner: Any, database_id: int, key: bytes, mode: int = UPDATE) -> None:
        """The lock of one key, in one of the modes of rows of ``herdpy_sql.lock_modes``."""

    def try_acquire(self, owner: Any, database_id: int, key: bytes, mode: int = UPDATE) -> bool:
        """As :meth:`acquire`; False where another transaction has the lock of the key."""

    def acquire_many(self, owner: Any, database_id: int, keys: Collection[bytes]) -> None:
        """The locks of many keys; may be granted as the lock of the whole database."""

    def acquire_table(self, owner: Any, database_id: int, mode: int = ACCESS_EXCLUSIVE) -> None:
        """A database as a whole; by default no other transaction has or gets any of its keys."""

    def try_acquire_table(self, owner: Any, database_id: int, mode: int = ACCESS_EXCLUSIVE) -> bool:
        """As :meth:`acquire_table`; False where another transaction is in the way."""

    def move_some(self, owner: Any, file: SpillFile, most: int) -> None:
        """Keep the oldest of the owner's locks of keys, about ``most``, in a file from now on.

        SqlError 53100, 53400, 58030; then it still has all of them.
        """


class NoLocks:
    """Grants everything: for one transaction at a time (recovery, tests, tools)."""

    def acquire(self, owner: Any, database_id: int, key: bytes, mode: int = UPDATE) -> None:
        """Granted."""

    def try_acquire(self, owner: Any, database_id: int, key: bytes, mode: int = UPDATE) -> bool:
        """Granted."""
        return True

    def acquire_many(self, owner: Any, database_id: int, keys: Collection[bytes]) -> None:
        """Granted."""

    def acquire_table(self, owner: Any, database_id: int, mode: int = ACCESS_EXCLUSIVE) -> None:
        """Granted."""

    def try_acquire_table(self, owner: Any, database_id: int, mode: int = ACCESS_EXCLUSIVE) -> bool:
        """Granted."""
        return True

    def move_some(self, owner: Any, file: SpillFile, most: int) -> None:
        """There are none."""
