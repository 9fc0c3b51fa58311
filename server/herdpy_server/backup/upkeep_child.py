"""A process that lists and expires backups: ``python -m herdpy_server.backup.upkeep_child``, by a server.

Above ``herdpy.backup``; ``upkeep`` is the other end. A repository may have many files and answer slowly, so a
server lets another process look, which stands back behind it and ends with it. A run that is ended in the
middle of expiry is gone on with by the next one.
"""

from __future__ import annotations

import faulthandler
import sys

import msgspec

from herdpy.backup.errors import BackupError
from herdpy.backup.expiry import Choice, expire
from herdpy.backup.manifest import BackupManifest, begun_us, log_directory, read_catalog
from herdpy.backup.repository import Repository
from herdpy.log.place import PlaceError
from herdpy.machine import end_with_parent
from herdpy_server.backup.upkeep_messages import (
    KnownBackup,
    ListedBackups,
    StartUpkeep,
    UpkeepFailed,
    UpkeepOrder,
    encode,
    order_of,
)
from herdpy_server.child_process import lower_priority


def main() -> None:
    """The process's life."""
    start = msgspec.json.decode(sys.argv[1], type=StartUpkeep)
    end_with_parent(start.parent)
    faulthandler.enable()
    lower_priority(start.niceness)
    try:
        _say(listed(order_of.decode(sys.stdin.buffer.read())))
    except PlaceError as error:
        _say(UpkeepFailed("place", str(error)))
    except BackupError as error:
        _say(UpkeepFailed("repository", str(error)))
    except Exception as error:
        _say(UpkeepFailed("other", f"{type(error).__name__}: {error}"))
        raise


def _say(answer: ListedBackups | UpkeepFailed) -> None:
    sys.stdout.buffer.write(encode(answer))
    sys.stdout.buffer.flush()


def listed(order: UpkeepOrder) -> ListedBackups:
    """Expire, if there is a policy, and list what there is then. BackupError; PlaceError."""
    if Repository.is_encrypted(order.url) is None:  # there is none yet
        return ListedBackups([], [], [], 0)
    repository = Repository.open(order.url, order.key)
    removed: list[str] = []
    freed_bytes, kept_back = 0, None
    if order.policy is not None and order.policy.keeps_any:
        plan = expire(repository, Choice(order.policy, logs=[order.log_id]))
        removed = [backup for _log, backup in plan.backups]
        freed_bytes = plan.freed_bytes
        kept_back = plan.skipped[0][1] if plan.skipped else None
    catalog = read_catalog(repository, repository.sizes(log_directory(order.log_id)))
    damaged = [(one.file.split("/")[3], one.reason) for one in catalog.damaged if "/backups/" in one.file]
    return ListedBackups([known(one) for one in catalog.backups], damaged, removed, freed_bytes, kept_back)


def known(manifest: BackupManifest) -> KnownBackup:
    """What a server keeps of a manifest."""
    return KnownBackup(
        id=manifest.id,
        kind=manifest.kind,
        node=manifest.node,
        begun_us=manifest.created_us,
        full_us=_full_us(manifest),
        finished_us=manifest.finished_us,
        image=manifest.image.lsn,
        end=manifest.end,
        time_us=manifest.end_time_us,
        parent=manifest.parent,
        tables=len(manifest.tables),
        rows=sum(one.rows for one in manifest.tables),
        raw_bytes=manifest.raw_bytes,
        stored_bytes=manifest.stored_bytes,
    )


def _full_us(manifest: BackupManifest) -> int:
    """The oldest of the backups whose pages it has is the full one that it goes back to."""
    if manifest.kind == "full":
        return manifest.created_us
    return begun_us(min({manifest.image.backup, *manifest.sources}))


if __name__ == "__main__":
    main()
