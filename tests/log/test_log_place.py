"""Places of files: a directory and a store of objects behave alike, and a name is created once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log.place import Place, PlaceError


@pytest.fixture(params=["directory", "file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    urls = {"directory": str(tmp_path / "p"), "file": f"file://{tmp_path}/p", "memory": "memory://log-place"}
    made = Place(urls[request.param])
    yield made
    made.clear()


def test_what_is_put_is_listed_and_read(place: Place) -> None:
    assert place.sizes() == {}
    assert place.names() == []
    place.put("a", b"1")
    place.put("x/y/b", b"22")
    place.put("a", b"333")
    assert place.sizes() == {"a": 3, "x/y/b": 2}
    assert place.sizes("x") == {"x/y/b": 2}
    assert sorted(place.names()) == ["a", "x"]
    assert place.read("a") == b"333"
    assert (place.size("a"), place.size("z")) == (3, None)
    with pytest.raises(FileNotFoundError):
        place.read("z")
    place.delete("a")
    place.delete("a")
    assert place.sizes() == {"x/y/b": 2}


def test_a_name_is_created_once(place: Place) -> None:
    assert place.put_new("x/one", b"first")
    assert not place.put_new("x/one", b"second")
    assert place.read("x/one") == b"first"
    assert place.sizes() == {"x/one": 5}


def test_of_writers_at_once_one_creates(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    start = threading.Barrier(8)
    created: list[int] = []

    def create(number: int) -> None:
        start.wait()
        if place.put_new("one", b"%d" % number):
            created.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(created) == 1
    assert place.read("one") == b"%d" % created[0]
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_what_a_writer_left_is_not_listed(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    (tmp_path / ".one.abcd1234.new").write_bytes(b"half")
    assert place.sizes() == {}


def test_what_a_place_refuses_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    place = Place(str(tmp_path / "file"))
    with pytest.raises(PlaceError, match=r"file cannot be written \(a\)"):
        place.put("a", b"1")
    with pytest.raises(PlaceError, match="cannot be opened"):
        Place("nowhere://x")


def test_the_way_to_a_directory_is_brought_to_the_disk_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("herdpy.log.place.sync_directory", lambda path: synced.append(str(path)))
    made = Place(str(tmp_path / "p"))
    inner, way = str(tmp_path / "p/x/y"), [str(tmp_path / one) for one in ("p/x/y", "p/x", "p", "")]
    made.put("x/y/a", b"1")
    assert [one.rstrip("/") for one in synced] == [one.rstrip("/") for one in way]
    synced.clear()
    made.put("x/y/b", b"2")
    assert synced == [inner]
    made.clear()
    synced.clear()
    made.put_new("x/y/a", b"1")
    assert len(synced) == len(way)


def test_errors_show_no_password() -> None:
    with pytest.raises(PlaceError) as caught:
        Place("s4://ann:hush@bucket/p")
    assert str(caught.value).startswith("s4://bucket/p cannot be opened: ")
