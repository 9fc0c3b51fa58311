"""Writing a ledger.

From the outside in: ``writer`` is what callers hold; ``pipeline`` is the state machine of the entries in
flight (no clock, no sockets); ``room`` makes appends wait; ``upkeep`` watches the
metadata and replaces bookies that failed; ``explicit_lac`` tells an idle ledger's
end.
"""

from herdpy.bookkeeper.write.writer import LedgerWriter

__all__ = ["LedgerWriter"]
