"""Exports as directories of files: manifests, generations, merges; and the same as tables of Delta.

From the bottom:

places       where they lie: local files, or whatever Hadoop's file systems reach
manifest     what one generation is: its position, its schema, its files, its fingerprint
generations  the manifests of one directory; publishing the next one, once
fingerprint  rows as a number that does not depend on their order
changeset    the net effect of a stretch of the change feed
rewriting    the next generation's files: those that hold changed rows, written anew
"""

from __future__ import annotations


def export_files(directory: str, generation: int | None = None) -> list[str]:
    """URLs of the files of an export in a local directory; those of its newest generation, or of that one.

    Raises:
        JobError: there is no such export or generation.
        DamagedManifestError: its manifest is damaged.
    """
    from herdpy_spark.jobs.errors import JobError
    from herdpy_spark.jobs.exporting.generations import Generations
    from herdpy_spark.jobs.exporting.places import place

    there = Generations(place(directory))
    manifest = there.newest() if generation is None else there.load(generation)
    if manifest is None:
        raise JobError(f"{directory} is no export: it has no manifest")
    return there.files(manifest)
