"""Writing a ledger.

From the outside in: ``writer`` is what callers hold; ``pipeline`` is the state machine of the entries in
flight (no clock, no sockets) and makes appends wait; ``upkeep`` watches the metadata, replaces bookies that
failed, and tells an idle ledger's end.
"""

from herdpy.bookkeeper.write.writer import LedgerWriter

__all__ = ["LedgerWriter"]
