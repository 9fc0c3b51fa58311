"""Backups: what the repository has of the tablespaces here, how far the archive is, and: back up now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy.log.place import without_userinfo
from herdpy_server.backup.messages import MakingProgress
from herdpy_server.console.visit import ConsolePage, PageRoute, live_routes
from herdpy_server.process.archive import backup_defaults
from herdpy_server.serving.backups import BackupRequest
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.backup.messages import Scope
    from herdpy_server.console.jobs import ConsoleJob
    from herdpy_server.console.visit import Visit

_BACKUPS = "SELECT * FROM herdpy.backups ORDER BY begun DESC, tablespace"
_ARCHIVE = "SELECT * FROM herdpy.archive ORDER BY tablespace"
_SCOPES: dict[str, Scope] = {"any": "any", "full": "full", "increment": "increment"}


async def _state(visit: Visit) -> dict[str, Any]:
    async with visit.session() as session:
        backups = await session.records(_BACKUPS)
        archive = await session.records(_ARCHIVE)
    url = visit.parts.config().backup.url
    return {
        "backups": [one for one in backups if one["id"]],
        "problems": [one for one in backups if one["problem"]],
        "archive": archive,
        "url": without_userinfo(url) if url else "",
        "here": [one.name for one in visit.parts.tablespaces.statuses()],
        "may_make": _may_make(visit),
    }


def _may_make(visit: Visit) -> bool:
    """As for gRPC's Backups: a role that replicates, or a superuser."""
    store = visit.parts.context.registry.role_store
    role = None if store is None else store.get(visit.login.user)
    return role is None or role.is_superuser or role.replicates


async def _make(visit: Visit) -> Response:
    form = await visit.form()
    name, scope = form.get("tablespace", ""), _SCOPES.get(form.get("scope", ""))
    if scope is None:
        raise SqlError("22023", "there is no such kind of backup")
    if not _may_make(visit):
        raise SqlError("42501", "must be superuser or have REPLICATION to make backups")
    config = visit.parts.config()
    if not config.backup.url:
        raise SqlError("55000", "no repository of backups is named", hint="Set backup.url of the server.")
    served = visit.parts.tablespaces.find(name)
    visit.record_call("backup", tablespace=name, scope=scope)

    async def make(job: ConsoleJob) -> None:
        def report(now: MakingProgress) -> None:
            job.progress = now.read_bytes / now.total_bytes if now.total_bytes else None

        made = await served.backups.make(
            BackupRequest(scope=scope), backup_defaults(config), report, job.note
        )
        job.columns = ("backup", "kind", "end", "raw bytes", "stored bytes")
        job.rows = [(made.id, made.kind, str(made.end_lsn), made.raw_bytes, made.stored_bytes)]

    visit.jobs.start(f"Back up {name}", visit.login.user, make)
    return visit.back("jobs", f"{name} is being backed up.")


PAGE = ConsolePage(
    "backups",
    "Backups",
    "Operate",
    [
        *live_routes("backups", "backups", _state),
        PageRoute("backups/make", _make, "POST"),
    ],
)
