"""An export's manifests: what is written is what is read, damage is noticed, a number is taken once."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import herdpy
from herdpy.log.lsn import LSN
from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting.generations import (
    DamagedManifestError,
    DataFile,
    ExportManifest,
    Fingerprint,
    Generations,
    LocalPlace,
    is_local,
    local_path,
)
from herdpy_spark.jobs.job import JobError

MANIFEST = ExportManifest(
    generation=1,
    kind="full",
    table="flights",
    lsn=LSN(7, 42),
    file_format="parquet",
    schema={"type": "struct", "fields": []},
    key=("id",),
    files=(DataFile("_data/00000001-a/x.parquet", 3, Fingerprint(2, 2**64 - 1, 9)),),
    run_id="a",
    created="2026-01-01T00:00:00+00:00",
    log_id="00ff",
)


@pytest.fixture
def generations(tmp_path: Path) -> Generations:
    """An export with nothing in it."""
    return Generations(LocalPlace(tmp_path / "export"))


def put(generations: Generations, number: int, run: str, content: bytes = b"abc") -> DataFile:
    """A file of a generation."""
    name = f"{generations.directory(number, run)}/x.parquet"
    assert generations.place.create(name, content)
    return DataFile(name, len(content), Fingerprint(1, 1, 1))


def test_a_manifest_is_read_as_it_was_written():
    later = replace(MANIFEST, generation=2, kind="incremental", since=LSN(7, 1), selection={"where": "a > 1"})
    parted = replace(MANIFEST, partition_by=("region", "a b"))
    assert b'"format": 2' in parted.dump(), "so that programs that know no partitions leave it alone"
    for one in (MANIFEST, later, parted):
        assert ExportManifest.parse(one.dump()) == one


def test_damage_is_noticed_wherever_it_is():
    document = MANIFEST.dump()
    other = json.loads(document)
    other["lsn"] = "7:43"
    damaged = [document[:-20], b"", b"[]", b'{"format": 1}', json.dumps(other).encode()]
    for one in damaged:
        with pytest.raises(DamagedManifestError, match=r"m\.json"):
            ExportManifest.parse(one, "m.json")


def test_a_newer_format_is_not_guessed_at():
    with pytest.raises(DamagedManifestError, match="format 3"):
        ExportManifest.parse(MANIFEST.dump().replace(b'"format": 1', b'"format": 3'))


def test_fingerprints_add_up_in_any_order():
    some = [Fingerprint(1, 2**64 - 1, 5), Fingerprint(2, 3, 2**63), Fingerprint(0, 0, 0)]
    assert sum(some, Fingerprint()) == sum(reversed(some), Fingerprint()) == Fingerprint(3, 2, 5 ^ 2**63)


def test_a_generation_is_there_once_it_is_published(generations: Generations):
    assert generations.newest() is None
    first = replace(MANIFEST, files=(put(generations, 1, "a"),))
    assert generations.newest() is None, "files alone are no generation"
    generations.publish(first)
    assert generations.newest() == first
    assert generations.numbers() == [1]


def test_a_number_is_taken_once(generations: Generations):
    generations.publish(replace(MANIFEST, files=(put(generations, 1, "a"),)))
    mine = replace(MANIFEST, run_id="b", files=(put(generations, 1, "b"),))
    with pytest.raises(JobError, match="published by another run"):
        generations.publish(mine)
    assert generations.load(1).run_id == "a"


def test_creating_loses_to_whoever_was_there_in_between(tmp_path: Path):
    at = LocalPlace(tmp_path)
    assert at.create("d/f", b"first")
    assert not at.create("d/f", b"second")
    assert at.read("d/f") == b"first"
    assert at.names("d") == ["f"], "nothing is left of who came second"


def test_files_that_are_gone_or_cut_are_not_published(generations: Generations):
    file = put(generations, 1, "a")
    with pytest.raises(JobError, match="has 3 bytes where 4 were written"):
        generations.publish(replace(MANIFEST, files=(replace(file, size_bytes=4),)))
    generations.place.remove(file.path)
    with pytest.raises(JobError, match="has None bytes"):
        generations.publish(replace(MANIFEST, files=(file,)))
    assert generations.newest() is None


def test_the_sweep_keeps_what_kept_generations_name(generations: Generations):
    one, lost = put(generations, 1, "a"), put(generations, 1, "crashed")
    generations.publish(replace(MANIFEST, files=(one,)))
    two = put(generations, 2, "b")
    generations.publish(replace(MANIFEST, generation=2, files=(one, two)))
    three = put(generations, 3, "c")
    generations.publish(replace(MANIFEST, generation=3, files=(three,)))
    running = put(generations, 4, "now")
    generations.sweep(keep=2)
    assert generations.numbers() == [2, 3]
    there = [generations.place.size(file.path) is not None for file in (one, lost, two, three, running)]
    assert there == [True, False, True, True, True]
    generations.sweep(keep=0)
    assert generations.numbers() == [3], "the newest is never swept"
    assert generations.place.size(one.path) is None


def test_a_generation_that_is_not_there_is_told_with_those_that_are(generations: Generations):
    generations.publish(replace(MANIFEST, files=(put(generations, 1, "a"),)))
    with pytest.raises(JobError, match="no generation 9; there: 1"):
        generations.load(9)


def test_local_places():
    assert is_local("a/b")
    assert is_local("file:///a%20b")
    assert not is_local("s3a://b/x")
    assert local_path("file:///a%20b") == Path("/a b")


def test_a_directory_that_is_made_anew_has_another_log(tmp_path: Path) -> None:
    """So that an incremental export of the one before is not gone on with."""

    def log_id() -> str:
        shutil.rmtree(tmp_path / "shop", ignore_errors=True)
        herdpy.connect(tmp_path / "shop").close()
        return JobDatabase({"url": f"herdpy://{tmp_path}/shop"}, "t").log_id

    first = log_id()
    assert first
    assert log_id() != first
