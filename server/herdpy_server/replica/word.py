"""An operator's word about a tablespace whose replicas cannot go on by themselves: one of them is kept.

Part of ``replica``. ``herdpy ledgers keep-replica`` writes it to ZooKeeper; the replica that it names watches
for it, and does away with it when it is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from herdpy.bookkeeper.metadata.znodes import Watch, Znode, Znodes
from herdpy_server.cluster.certain import change, delete_own
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import KeepRecord, TablespacePaths, decode, encode

logger = logging.getLogger("herdpy.replica")


class KeepWord:
    """The word to one node's replica of a tablespace.

    Attributes:
        record: what is to be done; None: nothing is.
    """

    def __init__(
        self, znodes: Znodes, paths: TablespacePaths, node: str, changed: Callable[[], object]
    ) -> None:
        """Args:
        changed: called when there is a word, or none any more.
        """
        self.record: KeepRecord | None = None
        self._znodes = znodes
        self._path = paths.keep
        self._node = node
        self._changed = changed
        self._watch: Watch | None = None

    def start(self) -> None:
        """Listen from now on."""
        self._watch = self._znodes.watch_data(self._path, self._told)

    def close(self) -> None:
        """Listen no more."""
        if self._watch is not None:
            self._watch.cancel()

    def _told(self, znode: Znode | None) -> None:
        record = None
        try:
            record = None if znode is None else decode(KeepRecord, self._path, znode.data)
        except MalformedMetadataError as error:
            logger.error("an operator's word is not understood", extra={"reason": str(error)})
        mine = record is not None and record.node == self._node and not record.refusal
        before, self.record = self.record, record if mine else None
        if self.record != before:
            self._changed()

    async def refuse(self, reason: str) -> None:
        """Say why it cannot be done; another word is waited for.

        Raises:
            NoNodeError, ZooKeeperUnavailableError, SessionExpiredError: it is not said.
        """
        record, self.record = self.record, None
        if record is None:
            return
        logger.error("an operator's word is refused", extra={"reason": reason})
        tag = record.tag

        def refused(data: bytes) -> bytes:
            now = decode(KeepRecord, self._path, data)
            return encode(msgspec.structs.replace(now, refusal=reason)) if now.tag == tag else data

        await change(self._znodes, self._path, refused)

    async def done(self) -> None:
        """It is done. Raises ZooKeeperUnavailableError, SessionExpiredError: to be said again."""
        record = self.record
        if record is None:
            return
        await delete_own(
            self._znodes, self._path, lambda data: decode(KeepRecord, self._path, data).tag == record.tag
        )
        self.record = None
