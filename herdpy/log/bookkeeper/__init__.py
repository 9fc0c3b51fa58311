"""The commit log of a tablespace in ledgers of Apache BookKeeper: one leader writes, everybody may read.

From the bottom: ``settings``; ``znode_list``, the ledger list; ``walk`` and ``followed_log``, reading;
``own_ledgers``, ledgers as the leader makes, lists and trims them; ``spare_ledger``, one that is made in
advance; ``pacing`` and ``sender``, from appends to entries in flight; ``succession``, from ledger to ledger;
``leader_log``; ``takeover``. docs/log-format.md has the format, DESIGN.md the reasons.
"""

from herdpy.log.bookkeeper.followed_log import FollowedLog
from herdpy.log.bookkeeper.leader_log import LeaderLog
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.bookkeeper.spare_ledger import SpareLedger
from herdpy.log.bookkeeper.takeover import Takeover, go_on_after, take_over
from herdpy.log.bookkeeper.walk import EntryRun, is_ahead
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList

__all__ = [
    "EntryRun",
    "FollowedLog",
    "LeaderLog",
    "LedgerLogSettings",
    "SpareLedger",
    "Takeover",
    "ZnodeLedgerList",
    "go_on_after",
    "is_ahead",
    "take_over",
]
