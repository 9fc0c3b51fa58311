"""Images: random states of a file are put together again, and unchanged pages are written once."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from herdpy.backup import pages as module
from herdpy.backup.errors import DamagedPartError
from herdpy.backup.manifest import backup_directory
from herdpy.backup.pages import (
    PageMap,
    PageWriter,
    packs_of,
    read_map,
    read_pack,
    remove_indexes,
    with_leftovers,
    write_map,
)
from herdpy.backup.repository import Repository
from herdpy.log.place import PlaceError

PAGE = 64
LOG = "ab" * 16


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(module, "PACK_BYTES", 5 * PAGE)
    monkeypatch.setattr(module, "_INDEX_EVERY", 2)
    monkeypatch.setattr(module, "_MAP_PAGES", 7)
    return Repository.create(str(tmp_path / "repository"))


def _back_up(
    repository: Repository, name: str, image: bytes, known: PageMap | None = None
) -> tuple[PageMap, PageWriter, int]:
    writer = PageWriter(repository, LOG, name, PAGE, known)
    chance = random.Random(len(image))
    at = 0
    while at < len(image):
        step = chance.randrange(1, 4 * PAGE)
        writer.feed(image[at : at + step])
        at += step
    made = writer.finish(name)
    parts, _size = write_map(repository, backup_directory(LOG, name), made)
    remove_indexes(repository, LOG, name)
    return made, writer, parts


def _restore(repository: Repository, pages: PageMap) -> bytes:
    image = bytearray(len(pages) * PAGE)
    for use in packs_of(pages, LOG):
        for first, data in read_pack(repository, pages, use, PAGE):
            image[first * PAGE : first * PAGE + len(data)] = data
    return bytes(image)


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_of_images_is_put_together(repository: Repository, seed: int) -> None:
    chance = random.Random(seed)
    image = bytearray(chance.randbytes(PAGE * chance.randrange(0, 60)))
    known: PageMap | None = None
    for number in range(5):
        made, _writer, parts = _back_up(repository, f"b{number}", bytes(image), known)
        assert _restore(repository, made) == image
        known = read_map(repository, LOG, f"b{number}", parts)
        assert _restore(repository, known) == image
        assert set(known.used_sources()) <= {f"b{one}" for one in range(number + 1)}
        changed = sorted(chance.sample(range(len(image) // PAGE), len(image) // PAGE // 10))
        for page in changed:
            image[page * PAGE] ^= 255
        grown = chance.randrange(-5, 6)
        image = image[: grown * PAGE] if grown < 0 else image + chance.randbytes(grown * PAGE)
        again = _back_up(repository, f"again{number}", bytes(image), known)[1]
        assert again.new_bytes == PAGE * (
            len([one for one in changed if one < len(image) // PAGE]) + max(grown, 0)
        )


def test_what_a_broken_run_left_is_not_written_again(repository: Repository) -> None:
    image = random.Random(1).randbytes(PAGE * 100)
    broken = PageWriter(repository, LOG, "broken", PAGE)
    broken.feed(image[: 83 * PAGE])
    broken.abandon()
    changed = bytes([image[0] ^ 1]) + image[1:]
    known = with_leftovers(repository, LOG, PageMap(), "broken")
    made, writer, _parts = _back_up(repository, "next", changed, known)
    assert _restore(repository, made) == changed
    assert writer.new_bytes == PAGE * (1 + 100 - 80)  # eight pairs of packs of five pages were indexed
    assert set(made.used_sources()) == {"broken", "next"}
    assert not any("index" in name for name in repository.sizes(backup_directory(LOG, "next")))


def test_a_pack_that_is_gone_or_is_not_what_the_map_says_is_named(repository: Repository) -> None:
    made, _writer, parts = _back_up(repository, "b", random.Random(2).randbytes(PAGE * 20))
    name = f"{backup_directory(LOG, 'b')}/pages-1"
    wrong = PageMap(made.sources, np.roll(made.hashes, 1, 0), made.source, made.pack, made.slot)
    with pytest.raises(DamagedPartError, match="page 0 is not in it"):
        _restore(repository, wrong)
    repository.delete(name)
    with pytest.raises(DamagedPartError, match=f"{name}: it is not there"):
        _restore(repository, made)
    repository.delete(f"{backup_directory(LOG, 'b')}/map-1")
    with pytest.raises(DamagedPartError, match="map-1: it is not there"):
        read_map(repository, LOG, "b", parts)
    with pytest.raises(ValueError, match="no parts"):
        PageMap.of_parts([])
    with pytest.raises(ValueError, match="is missing"):
        PageMap.of_parts(made.parts()[1:])


def test_a_place_that_refuses_ends_the_writing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = PageWriter(repository, LOG, "b", PAGE)

    def refuse(name: str, _data: bytes) -> None:
        raise PlaceError(f"{name}: no space is left")

    monkeypatch.setattr(repository.place, "put", refuse)
    with pytest.raises(PlaceError, match="no space is left"):  # noqa: PT012 - whichever hears of it first
        writer.feed(bytes(range(256)) * 5)
        writer.finish("b")
    writer.abandon()


def test_an_image_that_ends_within_a_page_is_refused(repository: Repository) -> None:
    writer = PageWriter(repository, LOG, "b", PAGE)
    writer.feed(b"x" * (PAGE + 1))
    with pytest.raises(ValueError, match="in the middle of a page"):
        writer.finish("b")
    writer.abandon()
