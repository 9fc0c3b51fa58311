"""From entries to whole transactions, in log order. Above ``entry``; used by whoever applies.

Leader recovery, followers and checkers feed it the entries they read, from a ledger of any kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy.log.entry import LogEntry
from herdpy.log.errors import ChainError, RecordError
from herdpy.log.lsn import LSN, START
from herdpy.log.transaction import Transaction


@dataclass(slots=True)
class TransactionAssembler:
    """Puts parts together and refuses entries that do not follow one another.

    Attributes:
        position: the last entry that was fed (at first: where reading starts after).
        safe: the position to read after next time. It stays before a transaction of which only
            some parts have come, so nothing of it is missed; a checkpoint must record this one.
        crc: running CRC of the entry at ``position``; None when it is not known, then the first
            entry's word is taken for it.
    """

    position: LSN = START
    crc: int | None = None
    safe: LSN = field(init=False)
    _parts: list[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.safe = self.position

    def feed(self, entry: LogEntry) -> list[tuple[LSN, Transaction]]:
        """The transactions that take effect with this entry, each with this entry's position.

        Raises:
            ChainError: the entry is not the one after the last. Nothing of it was taken.
            RecordError: the entry's bytes make no transaction.
        """
        lsn = entry.header.lsn
        return [(lsn, Transaction.decode(data)) for data in self.take(entry)]

    def take(self, entry: LogEntry) -> list[bytes]:
        """As ``feed``, for who decodes the transactions himself."""
        header = entry.header
        if header.predecessor != self.position:
            raise ChainError(
                f"entry {header.lsn} follows {header.predecessor}, but {self.position} was the last one read"
            )
        if self.crc is not None and header.predecessor_crc != self.crc:
            raise ChainError(f"entry {header.lsn} continues another history than {self.position}'s")
        done: list[bytes] = []
        parts = self._parts
        for part in entry.parts:
            if part.first:
                # A first part while others wait: their writer stopped before the last one, so
                # they take no effect.
                if part.last:
                    parts = None
                    done.append(part.data)
                    continue
                parts = [part.data]
            elif parts is None:
                raise RecordError(f"entry {header.lsn} continues a transaction that was not begun")
            else:
                parts.append(part.data)
                if part.last:
                    done.append(b"".join(parts))
                    parts = None
        self._parts = parts
        self.position, self.crc = header.lsn, header.crc
        if parts is None:
            self.safe = header.lsn
        return done
