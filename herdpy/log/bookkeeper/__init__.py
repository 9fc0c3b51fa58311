"""The commit log of a tablespace in ledgers of Apache BookKeeper: one leader writes, everybody may read.

From the bottom: ``settings``; ``znode_list``, the ledger list in a znode; ``walk``
and ``followed_log``, reading across ledgers; ``ensembles`` and ``own_ledgers``,
ledgers as the leader makes, lists and trims them; ``sender``, from appends to entries in
flight; ``succession``, from ledger to ledger; ``leader_log``, the log that
is written; ``takeover``, how one becomes its leader;
``going_on``, how after a loss an operator has the log go on. The format is in docs/log-format.md, the reasons
are in herdpy/log/DESIGN.md.
"""

from herdpy.log.bookkeeper.followed_log import FollowedLog
from herdpy.log.bookkeeper.going_on import go_on_after
from herdpy.log.bookkeeper.leader_log import LeaderLog
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.bookkeeper.takeover import Takeover, take_over
from herdpy.log.bookkeeper.walk import is_ahead
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList

__all__ = [
    "FollowedLog",
    "LeaderLog",
    "LedgerLogSettings",
    "Takeover",
    "ZnodeLedgerList",
    "go_on_after",
    "is_ahead",
    "take_over",
]
