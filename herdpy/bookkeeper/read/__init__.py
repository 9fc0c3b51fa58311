"""Reading ledgers: entries, the last add confirmed, tailing, and recovery.

Between the client above and the bookies and the ledger store below. ``reader.LedgerReader`` is what users
hold. Under it: ``view`` (what is known of one ledger), ``entry_read`` (one entry from its replicas),
``ranges`` (many entries ahead of their consumer), ``quorum`` (questions to a whole
ensemble), ``polls`` (following a ledger as it is written). ``recovery`` takes a ledger from its
writer, finds its end and writes it again.
"""

from herdpy.bookkeeper.read.ranges import missing_copies
from herdpy.bookkeeper.read.reader import LedgerReader
from herdpy.bookkeeper.read.recovery import recover_ledger

__all__ = ["LedgerReader", "missing_copies", "recover_ledger"]
