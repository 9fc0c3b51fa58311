"""Positions in the log of one tablespace: below every other module of the log.

A position names an entry. Everything above orders, compares and stores positions, and nothing
else about an entry is needed to do so.
"""

from __future__ import annotations

from typing import NamedTuple


class LSN(NamedTuple):
    """The position of an entry: the ledger's id, then the entry's id in it; ordered as tuples are.

    Ledger ids grow along a tablespace's ledger list; entry ids count from 0 in each ledger. Both
    are signed 64-bit integers, as BookKeeper has them.
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> LSN:
        """The position that ``str`` wrote as ``ledger:entry``; ValueError for any other text."""
        ledger, colon, entry = text.partition(":")
        if not colon:
            raise ValueError(f"not a log position: {text!r} (expected ledger:entry)")
        try:
            return cls(int(ledger), int(entry))
        except ValueError:
            raise ValueError(f"not a log position: {text!r} (expected ledger:entry)") from None


#: Before every entry of every log: what an empty replica has applied.
START = LSN(-1, -1)
