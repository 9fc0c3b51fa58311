"""The generations of one export: found, published once, and removed when they are no longer wanted.

    <export>/_herdpy/manifest-00000007.json     the seventh generation
    <export>/_data/00000007-<run>/part-...      files that the seventh generation added

A generation exists from the moment its manifest does. The file's name is its number and is taken once: of two
runs that go on from the same generation one publishes, the other is told. Files that no manifest names are
what a run left that did not come so far; they are swept by the next one that publishes. Both directories have
names that Spark passes over, so that ``spark.read.parquet(<export>)`` finds nothing, rather than the files of
several generations at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from herdpy_spark.jobs.errors import JobError
from herdpy_spark.jobs.exporting.manifest import ExportManifest
from herdpy_spark.jobs.exporting.places import ExportPlace

MANIFESTS = "_herdpy"
DATA = "_data"
_NAME = re.compile(r"manifest-(\d{8})\.json")
_DIRECTORY = re.compile(r"(\d{8})-[\w.-]+")


class Generations:
    """The export in a place."""

    def __init__(self, at: ExportPlace) -> None:
        self.place = at

    def numbers(self) -> list[int]:
        """Which generations there are, oldest first."""
        found = (_NAME.fullmatch(name) for name in self.place.names(MANIFESTS))
        return sorted(int(match[1]) for match in found if match)

    def load(self, number: int) -> ExportManifest:
        """That generation; JobError when there is none, DamagedManifestError when its manifest is damaged."""
        name = _manifest(number)
        try:
            document = self.place.read(name)
        except FileNotFoundError:
            there = ", ".join(map(str, self.numbers())) or "none"
            raise JobError(f"{self.place.url} has no generation {number}; there: {there}") from None
        return ExportManifest.parse(document, self.place.join(name))

    def newest(self) -> ExportManifest | None:
        """The generation that readers want; None where nothing was exported yet."""
        numbers = self.numbers()
        return self.load(numbers[-1]) if numbers else None

    def directory(self, number: int, run_id: str) -> str:
        """Where a run writes the files of its generation."""
        return f"{DATA}/{number:08d}-{run_id}"

    def publish(self, manifest: ExportManifest) -> None:
        """Make the generation exist. JobError when its number is taken: another run was quicker."""
        taken = JobError(
            f"generation {manifest.generation} of {self.place.url} was published by another run meanwhile",
            hint="Nothing was changed by this one. Run it again to go on from there.",
        )
        if self.place.size(_manifest(manifest.generation)) is not None:
            raise taken  # asked first: the winner may have swept the loser's files
        for one in manifest.files:
            size = self.place.size(one.path)
            if size != one.size_bytes:
                raise JobError(
                    f"{self.place.join(one.path)} has {size} bytes where {one.size_bytes} were written",
                    hint="Something removes or changes files of this export. Run a full export.",
                )
        if not self.place.create(_manifest(manifest.generation), manifest.dump()):
            raise taken

    def files(self, manifest: ExportManifest) -> list[str]:
        """What Spark calls the generation's files."""
        return [self.place.join(one.path) for one in manifest.files]

    def sweep(self, keep: int) -> list[str]:
        """Remove all but the newest ``keep`` generations, and files that none of those names.

        Directories of numbers above the newest generation's are left alone: a run may be writing there.
        Returns what was removed.
        """
        numbers = self.numbers()
        if not numbers:
            return []
        removed = [_manifest(number) for number in numbers[: -max(keep, 1)]]
        named = {one.path for number in numbers[-max(keep, 1) :] for one in self.load(number).files}
        for name in removed:  # manifests first: what is there must be whole
            self.place.remove(name)
        removed += self._unnamed(named, numbers[-1])
        return removed

    def _unnamed(self, named: Iterable[str], newest: int) -> list[str]:
        named = set(named)
        removed = []
        for directory in self.place.names(DATA):
            match = _DIRECTORY.fullmatch(directory)
            if match is None or int(match[1]) > newest:
                continue
            inside = [f"{DATA}/{directory}/{name}" for name in self.place.names(f"{DATA}/{directory}")]
            if not named.intersection(inside):
                self.place.remove(f"{DATA}/{directory}")
                removed.append(f"{DATA}/{directory}")
                continue
            for name in inside:
                if name not in named:
                    self.place.remove(name)
                    removed.append(name)
        return removed


def _manifest(number: int) -> str:
    return f"{MANIFESTS}/manifest-{number:08d}.json"
