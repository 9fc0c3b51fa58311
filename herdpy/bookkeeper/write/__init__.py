"""Writing a ledger.

From the outside in: ``writer`` is what callers hold; ``pipeline`` is the state machine of the entries in
flight (no clock, no sockets); ``add`` is one entry in it; ``room`` makes appends wait; ``upkeep`` watches the
metadata and, with ``ensemble_change``, replaces bookies that failed; ``explicit_lac`` tells an idle ledger's
end; ``force`` makes deferred writes safe; ``ending`` closes the ledger.
"""

from herdpy.bookkeeper.write.writer import LedgerWriter

__all__ = ["LedgerWriter"]
