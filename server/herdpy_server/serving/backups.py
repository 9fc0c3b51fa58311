"""Makes backups of a tablespace, on request or when one is due. Beside ``publishing``, above ``logs``.

Any replica makes one: a follower does it where there is one, so that it costs the leader nothing. A process
of its own reads the store and the log, and writes (``backup.process``). The log is kept as it is meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from herdpy.backup.errors import RepositoryError
from herdpy.backup.manifest import BackupManifest
from herdpy.backup.repository import read_key
from herdpy.log.lsn import LSN, START
from herdpy_server.backup.archiver_messages import ArchivedPlace
from herdpy_server.backup.messages import MakingOrder, Scope
from herdpy_server.backup.process import Note, Report, make
from herdpy_server.cluster.errors import PositionTrimmedError
from herdpy_server.serving.logs import BackupFacts, LogBackend, with_store
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.backup")

_TRIES = 4
_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupDefaults:
    """How backups are made where nothing else is said: the section ``backup`` of a server's configuration.

    Attributes:
        key_file: of repositories that are encrypted, and of new ones.
    """

    url: str = ""
    key_file: str = ""
    jobs: int = 2
    rate_bytes: int = 0
    niceness: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """One backup that is to be made.

    Attributes:
        url: the repository; empty: the default.
        jobs, rate_bytes: see ``BackupOrder``; 0: the defaults.
        reached: everything up to there is to be in it.
    """

    url: str = ""
    scope: Scope = "any"
    jobs: int = 0
    rate_bytes: int = 0
    reached: LSN = START


class BackupMaking:
    """Of one tablespace.

    Args:
        node: who makes them; empty: the server is alone.

    Attributes:
        made: is called when there is another backup.
    """

    def __init__(self, backend: LogBackend, node: str = "") -> None:
        self._backend = backend
        self._node = node
        self.made: Callable[[], object] = lambda: None

    async def make(
        self,
        request: BackupRequest,
        defaults: BackupDefaults,
        report: Report = lambda _progress: None,
        note: Note = lambda _text: None,
    ) -> BackupManifest:
        """Make a backup; when this returns it is there.

        Raises:
            SqlError: 55000, there is no repository, or its key is not the one; 57P03, the store cannot be
                read now; 08001, ZooKeeper does not answer; as ``backup.process``.
        """
        url = request.url or defaults.url
        if not url:
            raise SqlError(
                "55000",
                "no repository of backups is named",
                hint="Name one, or set backup.url of the server.",
            )
        async with self._backend.answering(), AsyncExitStack() as kept:
            facts = await self._backend.backup_facts()
            await self._keep_log(kept, facts.durable)
            order = await self._order(url, request, defaults, facts)
            manifest = await with_store(self._backend, lambda: make(order, defaults.niceness, report, note))
        logger.info(
            "backup made",
            extra={
                "tablespace": manifest.tablespace,
                "backup": manifest.id,
                "kind": manifest.kind,
                "end": manifest.end,
                "bytes": manifest.stored_bytes,
                "seconds": round((manifest.finished_us - manifest.created_us) / 1e6, 3),
            },
        )
        self.made()
        return manifest

    async def _keep_log(self, kept: AsyncExitStack, durable: LSN) -> None:
        """Keep all of the log that is there now, as an increment may be all of it; at least what is after
        ``durable``, as an image is.

        What is trimmed all the same makes the backup one of pages.
        """
        for left in reversed(range(_TRIES)):
            base = await self._backend.base() if left else durable
            try:
                await kept.enter_async_context(self._backend.keeping(base))
                return
            except PositionTrimmedError as error:  # it is being trimmed
                if not left:
                    raise SqlError(
                        "57P03", f"the log is trimmed too fast: {error}", hint="Try again."
                    ) from error
            await asyncio.sleep(_AGAIN_S)

    async def _order(
        self, url: str, request: BackupRequest, defaults: BackupDefaults, facts: BackupFacts
    ) -> MakingOrder:
        backend = self._backend
        place = await backend.place()
        return MakingOrder(
            url=url,
            key=await asyncio.to_thread(backup_key, defaults.key_file),
            is_own=url == defaults.url,
            store=str(backend.store),
            log=ArchivedPlace(
                tablespace=backend.tablespace,
                log_id=place.log_id,
                zookeeper=place.zookeeper,
                ledgers_root=place.ledgers_root,
                list_path=place.ledger_list,
                password=place.password,
                directory=place.directory,
                zookeeper_access=facts.zookeeper_access,
            ),
            tablespace=backend.tablespace,
            scope=request.scope,
            least=max(request.reached, facts.reached),
            parent=facts.parent,
            branched=facts.branched,
            jobs=request.jobs or defaults.jobs,
            rate_bytes=request.rate_bytes or defaults.rate_bytes,
            settings=facts.settings,
            files=facts.files,
            node=self._node,
        )


def backup_key(file: str) -> bytes | None:
    """The key in a file; None when none is named. SqlError 55000: it cannot be read."""
    if not file:
        return None
    try:
        return read_key(Path(file))
    except RepositoryError as error:
        raise SqlError("55000", str(error)) from error
    except OSError as error:
        raise SqlError("55000", f"the key file of backups cannot be read: {error.strerror}") from error
