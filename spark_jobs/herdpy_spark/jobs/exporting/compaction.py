"""Small files of an export, joined: which ones, and what becomes of them. Above ``changeset``.

files of the newest generation -> small ones -> the same rows in fewer files -> the next generation's manifest
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy import __version__
from herdpy_spark.jobs.exporting import now
from herdpy_spark.jobs.exporting.changeset import ExportStore, MergedFiles
from herdpy_spark.jobs.exporting.generations import DataFile, ExportManifest
from herdpy_spark.jobs.exporting.task_files import partition_of
from herdpy_spark.jobs.job import JobError

if TYPE_CHECKING:
    from herdpy_spark.jobs.job import JobRun

COMPACTED = "compacted"
_ENOUGH = 0.75  # a file with this part of the wanted bytes is left alone


def is_repeated(this: JobRun, newest: ExportManifest) -> bool:
    """Whether the newest generation is of this very run; that is reported."""
    expected = this.arguments.run_id
    if expected is None or newest.run_id != expected:
        return False
    this.note(f"generation {newest.generation} is of run {expected}: nothing is to be done")
    this.report |= {"generation": newest.generation, "lsn": str(newest.lsn), "repeated": True}
    return True


def small_files(files: Sequence[DataFile], target_bytes: int, *, parted: bool) -> tuple[DataFile, ...]:
    """Those to be joined: of an export in partitions, where a partition has more than one."""
    small = [one for one in files if one.size_bytes < target_bytes * _ENOUGH]
    if not parted:
        return tuple(small)
    many = Counter(partition_of(one.path) for one in small)
    return tuple(one for one in small if many[partition_of(one.path)] > 1)


def is_worth_it(this: JobRun, newest: ExportManifest, small: tuple[DataFile, ...]) -> bool:
    """Whether there is anything to join, and it is to be done; what is found is reported."""
    expected = _count(small, this.arguments.target_size)
    plan = {"small_files": len(small), "joined_into": min(expected, len(small))}
    this.report |= {"generation": newest.generation, "lsn": str(newest.lsn)}
    if len(small) <= expected:
        this.note("no files are worth joining")
        this.report |= {"removed": 0, "added": 0}
        return False
    if this.dry:
        this.report["plan"] = plan
        return False
    this.note(f"joining {len(small)} small files into about {expected}")
    return True


def _count(files: Sequence[DataFile], target_bytes: int) -> int:
    return max(1, -(-sum(one.size_bytes for one in files) // target_bytes))


def rows_per_file(small: tuple[DataFile, ...], target_bytes: int) -> int:
    """How many rows a joined file has, for it to have about so many bytes."""
    held = sum(one.fingerprint.rows for one in small)
    return max(-(-held // _count(small, target_bytes)), 1)


def join(store: ExportStore, newest: ExportManifest, small: tuple[DataFile, ...]) -> MergedFiles:
    """The same rows in fewer files. JobError: they are not the same."""
    held = sum(one.fingerprint.rows for one in small)
    added = store.add(store.rows(small), newest.key, held)
    written = sum(one.fingerprint.rows for one in added)
    if written != held:
        raise JobError(
            f"the small files hold {written} rows, not {held}",
            hint="Nothing was published. Run verify, and a full export where it finds damage.",
        )
    names = {one.path for one in small}
    return MergedFiles(tuple(one for one in newest.files if one.path not in names), small, added)


def next_manifest(newest: ExportManifest, name: str, files: tuple[DataFile, ...]) -> ExportManifest:
    """Of the generation after it, at the same position."""
    return replace(
        newest,
        generation=newest.generation + 1,
        kind=COMPACTED,
        since=None,
        files=files,
        run_id=name,
        created=now(),
        herdpy=__version__,
    )


def report(this: JobRun, manifest: ExportManifest, joined: MergedFiles) -> None:
    """Say what was done."""
    this.report |= {
        "generation": manifest.generation,
        "lsn": str(manifest.lsn),
        "removed": len(joined.gone),
        "added": len(joined.added),
        "files": len(joined.files),
    }
    this.note(f"generation {manifest.generation}: {len(joined.gone)} files are {len(joined.added)} now")
