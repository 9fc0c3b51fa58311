"""The log of a replica that leads, as its archiver sees it (``archiver.LogToArchive``). Beside ``served``."""

from __future__ import annotations

from collections.abc import Sequence

from herdpy.log.bookkeeper import LeaderLog
from herdpy.log.ledger_list import LedgerInfo
from herdpy.log.lsn import LSN
from herdpy_server.backup.archiver_messages import ArchivedPlace, Upto
from herdpy_server.replica.base import ReplicaBase


class ArchivedBookies:
    """A log on bookies, for as long as this node leads it."""

    def __init__(self, replica: ReplicaBase, log: LeaderLog) -> None:
        self._log = log
        host = replica.host
        self.place = ArchivedPlace(
            tablespace=replica.info.name,
            log_id=log.state.log_id,
            zookeeper=host.zookeeper,
            ledgers_root=host.ledgers_root,
            list_path=replica.paths.ledgers,
            password=replica.log_settings().password,
            zookeeper_access=host.zookeeper_access,
        )

    @property
    def base(self) -> LSN:
        return self._log.state.base

    def ledgers(self) -> Sequence[LedgerInfo]:
        return self._log.ledgers()

    def confirmed(self) -> Upto:
        return Upto(self._log.lac)

    def written_bytes(self) -> int:
        return self._log.counts.bytes
