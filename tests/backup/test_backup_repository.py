"""A repository: what is written is read, and what was damaged, moved or brought from elsewhere is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from herdpy.backup.errors import DamagedPartError, RepositoryError
from herdpy.backup.repository import IDENTITY, Repository, new_key_file, read_key
from herdpy.log.place import PlaceError

KEY = bytes(range(32))


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    return Repository.create(str(tmp_path / "repository"), request.param)


def test_parts_are_read_as_written(repository: Repository) -> None:
    for name, contents in {"a": b"", "x/y/z": b"z" * 100_000, "x/random": os.urandom(5000)}.items():
        stored = repository.write(name, contents)
        assert repository.read(name) == contents
        assert repository.sizes()[name] == stored
    assert set(repository.sizes("x")) == {"x/y/z", "x/random"}
    repository.delete("x/y/z")
    repository.delete("x/y/z")
    with pytest.raises(DamagedPartError, match=r"x/y/z: it is not there"):
        repository.read("x/y/z")


def _flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [*map(_flip, [0, 4, 5, 7, 20, 100, -1]), lambda data: data[:-1], lambda data: data + b"x", lambda _: b""],
)
def test_each_damage_is_found(repository: Repository, damage: Callable[[bytes], bytes]) -> None:
    repository.write("part", b"contents " * 100)
    path = Path(repository.place.path("part"))
    path.write_bytes(damage(path.read_bytes())[:])
    with pytest.raises(DamagedPartError, match=r"^the repository is damaged: part: "):
        repository.read("part")


def test_a_part_at_another_place_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.write("one", b"1")
    repository.write("two", b"2")
    one, two = (Path(repository.place.path(name)) for name in ("one", "two"))
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    with pytest.raises(DamagedPartError, match="one: it is another part, two"):
        repository.read("one")
    other = Repository.create(str(tmp_path / "other"), repository.codec.key)
    other.write("one", b"1")
    one.write_bytes(Path(other.place.path("one")).read_bytes())
    with pytest.raises(DamagedPartError, match=f"one: it is a part of another repository, {other.id}"):
        repository.read("one")
    one.write_bytes(first)
    assert repository.read("one") == b"1"


def test_an_encrypted_repository_shows_nothing_and_takes_its_key_alone(tmp_path: Path) -> None:
    url = str(tmp_path / "repository")
    repository = Repository.create(url, KEY)
    repository.write("part", b"secret contents")
    assert b"secret" not in Path(repository.place.path("part")).read_bytes()
    assert KEY.hex() not in repr(repository.codec)
    with pytest.raises(RepositoryError, match="is encrypted"):
        Repository.open(url)
    with pytest.raises(RepositoryError, match="the key is not the one of"):
        Repository.open(url, KEY[::-1])
    with pytest.raises(RepositoryError, match="is not encrypted"):
        Repository.create(str(tmp_path / "plain")) and Repository.open(str(tmp_path / "plain"), KEY)
    assert Repository.open(url, KEY).read("part") == b"secret contents"


def test_a_plain_part_in_an_encrypted_repository_is_refused(tmp_path: Path) -> None:
    repository = Repository.create(str(tmp_path / "repository"), KEY)
    plain = type(repository.codec)(repository.id)
    repository.place.put("part", plain.encode("part", b"forged"))
    with pytest.raises(DamagedPartError, match="it is not encrypted"):
        repository.read("part")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no repository of backups at"),
        ("{", "cannot be read"),
        ('{"id": "x", "format": 2}', "has format 2"),
        ('{"id": "x", "encryption": "rot13"}', "encryption rot13"),
    ],
)
def test_what_is_no_repository_is_refused(tmp_path: Path, text: str | None, reason: str) -> None:
    if text is not None:
        (tmp_path / IDENTITY).write_text(text)
    with pytest.raises(RepositoryError, match=reason):
        Repository.open(str(tmp_path))


def test_a_place_without_a_meaning_is_refused() -> None:
    with pytest.raises(PlaceError):
        Repository.create("nowhere://bucket/x")


def test_a_second_creation_opens_the_first() -> None:
    url = "memory://backup-repository"
    first = Repository.create(url)
    first.write("part", b"1")
    assert Repository.create(url).id == first.id
    assert Repository.create(url).read("part") == b"1"
    first.place.clear()


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    new_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_key(path)) == 32
    with pytest.raises(FileExistsError):
        new_key_file(path)
    for text in ("", "short", "%%%", "A" * 100):
        path.write_text(text)
        with pytest.raises(RepositoryError, match="is no key file"):
            read_key(path)
