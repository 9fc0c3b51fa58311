"""What a restore would bring, and from which parts, without doing it. Beside ``restoring``."""

from __future__ import annotations

from dataclasses import dataclass

from herdpy.backup.errors import DamagedPartError
from herdpy.backup.manifest import BackupManifest, backup_directory
from herdpy.backup.pages import packs_of, read_map
from herdpy.backup.repository import Repository
from herdpy_server.backup.targets import RestorePlan


@dataclass(frozen=True, slots=True)
class RestoreSummary:
    """What a plan comes to.

    Attributes:
        backup: the one that it begins with.
        image_bytes: of the image when it is put together.
        parts, part_bytes: files with its pages, and their sizes in the repository.
        sources: ids of the backups that have them.
        segments, segment_bytes: files of the archived log.
        tables, rows: as of the image.
        notes: what is not as it should be: an older backup is taken, because parts are missing.
    """

    backup: BackupManifest
    image_bytes: int
    parts: int
    part_bytes: int
    sources: tuple[str, ...]
    segments: int
    segment_bytes: int
    tables: int
    rows: int
    notes: tuple[str, ...]


def summarise(repository: Repository, plan: RestorePlan) -> RestoreSummary:
    """Look for the parts of a plan; none of them is read but maps.

    Raises:
        DamagedPartError: parts are missing, and no other backup replaces them.
        PlaceError: the repository cannot be read.
    """
    notes = list(plan.notes)
    failure: DamagedPartError | None = None
    for manifest in plan.candidates:
        try:
            return _of(repository, plan, manifest, notes)
        except DamagedPartError as error:
            failure = error
            notes.append(str(error))
    assert failure is not None
    raise failure


def _of(
    repository: Repository, plan: RestorePlan, manifest: BackupManifest, notes: list[str]
) -> RestoreSummary:
    image = manifest.image
    pages = read_map(repository, manifest.log_id, image.backup, image.maps)
    sources = pages.used_sources()
    there: dict[str, int] = {}
    for one in sources:
        there |= repository.sizes(backup_directory(manifest.log_id, one))
    names = [one.name for one in packs_of(pages, manifest.log_id)]
    for name in names:
        if name not in there:
            raise DamagedPartError(name, "it is not there")
    return RestoreSummary(
        manifest,
        image.pages * image.page_bytes,
        len(names),
        sum(there[name] for name in names),
        sources,
        len(plan.segments),
        sum(one.size_bytes for one in plan.segments),
        len(manifest.tables),
        sum(one.rows for one in manifest.tables),
        tuple(notes),
    )
