"""Where a stream stands, as Spark keeps it in checkpoints. Without I/O.

The position is the end of a transaction. Beside it stand the log that it is of, and the table's definition
there: a stream that goes on after months needs neither a server nor old ledgers to know what rows mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from herdpy.log.lsn import LSN
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table, encode_table


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in a log.

    Attributes:
        lsn: the end of a transaction, or a log's base.
        log_id: of the log.
        definition: of the table there, the catalog's JSON; empty where no table has the name.
    """

    lsn: LSN
    log_id: str
    definition: str = ""

    @classmethod
    def of(cls, lsn: LSN, log_id: str, table: Table | None) -> Offset:
        """The offset at a position with that table."""
        return cls(lsn, log_id, encode_table(table).decode() if table is not None else "")

    @property
    def table(self) -> Table | None:
        """The table's definition."""
        return decode_table(self.definition.encode()) if self.definition else None

    def to_json(self) -> dict[str, Any]:
        """As Spark takes offsets: numbers and texts, always the same for the same position."""
        return {
            "ledger": self.lsn.ledger_id,
            "entry": self.lsn.entry_id,
            "log": self.log_id,
            "table": self.definition,
        }

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Offset:
        """The inverse; ValueError when it is no offset of a feed."""
        try:
            return cls(LSN(int(given["ledger"]), int(given["entry"])), str(given["log"]), str(given["table"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an offset of a change feed: {given}") from error
