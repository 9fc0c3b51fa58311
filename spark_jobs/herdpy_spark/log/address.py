"""Where a tablespace's log is: what a task needs to read it without any server. The lowest module here.

Made by the driver, from a server, from ZooKeeper or from a directory, and sent to the tasks. It also
finds what is published of the log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList
from herdpy.log.lsn import LSN
from herdpy.log.published import SnapshotRef, load, newest, snapshots


@dataclass(frozen=True, slots=True)
class LogAddress:
    """A log in ledgers of BookKeeper, or in the files of a directory. It can be pickled.

    Attributes:
        tablespace: its name, under which snapshots are published.
        log_id: the log's own identity (hex); empty: take whatever log is there.
        zookeeper: "host:port,host:port", empty where the log is in files.
        ledgers_root: the znode under which BookKeeper keeps its metadata.
        list_path: the znode with the ledger list.
        password: of the ledgers.
        directory: of the log's files (``log`` in a database's directory), empty where it is in BookKeeper.
        snapshot_url: where snapshots of the tablespace are published, any URL of fsspec; empty: nowhere.
    """

    tablespace: str
    log_id: str = ""
    zookeeper: str = ""
    ledgers_root: str = "/ledgers"
    list_path: str = ""
    password: bytes = field(default=b"", repr=False)
    directory: str = ""
    snapshot_url: str = ""

    def __post_init__(self) -> None:
        if bool(self.directory) == bool(self.zookeeper and self.list_path):
            raise ValueError(
                "a log is either in a directory or in ledgers that ZooKeeper and a list's path lead to"
            )

    @classmethod
    def of_database(
        cls, path: str | os.PathLike[str], *, tablespace: str = "herdpy", snapshot_url: str = ""
    ) -> LogAddress:
        """The log that the embedded database in the directory ``path`` has now; nameless where there is none.

        Raises CorruptLedgerError where its list is damaged.
        """
        log = os.path.join(path, "log")
        state = FileLedgerList(log, OsFiles()).read()
        log_id = state.log_id if state is not None else ""
        return cls(tablespace, log_id, directory=log, snapshot_url=snapshot_url)

    def newest_snapshot(self, upto: LSN, time_us: int | None = None) -> SnapshotRef | None:
        """The newest published snapshot of this log that holds nothing after ``upto`` and ``time_us``.

        None: there is none, or nothing is published. Raises as ``herdpy.log.published.newest``.
        """
        if not self.snapshot_url:
            return None
        return newest(self.snapshot_url, self.tablespace, upto, time_us, self.log_id or None)

    def oldest_snapshot(self, after: LSN, upto: LSN) -> SnapshotRef | None:
        """The oldest published snapshot of this log from ``after`` to ``upto``; None as ``newest_snapshot``.

        Raises DamagedSnapshotError, PublishedSnapshotError.
        """
        found = snapshots(self.snapshot_url, self.tablespace) if self.snapshot_url else []
        between = (ref for ref in reversed(found) if after <= ref.lsn <= upto)
        return next((ref for ref in between if self.log_id in ("", load(ref).log_id)), None)

    def __str__(self) -> str:
        where = self.directory or f"zk://{self.zookeeper}{self.list_path}"
        return f"the log of tablespace {self.tablespace} ({where})"
