"""Bit rot: bytes that change in files while nobody looks.

Below `local`. With a marker, one bit of every place that holds those bytes is turned over: what is
damaged is the text of a row or of an entry, and nothing of the file's own structure, so that only a checksum
of the contents can tell. Without one whole pages become garbage, here and there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

from herdpy.drill.control.control import CannotError

_PAGE = 4096
_HEAD_PAGES = 2
"""LMDB's two meta pages, and what is the head of an entry log, are left as they are: a file without them is
a file that is not there, which is another fault."""
_DAMAGED = 0.25


def server_files(directory: Path) -> list[Path]:
    """The stores of a server's replicas."""
    return sorted(directory.glob("tablespaces/*/store/data.mdb"))


def bookie_files(directory: Path) -> list[Path]:
    """A bookie's journals and entry logs: after a crash entries are read from the first, later the second."""
    return sorted([*directory.glob("journal/**/*.txn"), *directory.glob("ledgers/**/*.log")])


def rot(files: Iterable[Path], marker: str | None, chance: Random) -> str:
    """Damage the files; what was done, in words. Raises CannotError when nothing was found to damage."""
    what, unit = (_flip, "places") if marker is not None else (_garble, "pages")
    damaged = {path.name: what(path, (marker or "").encode(), chance) for path in files}
    told = ", ".join(f"{count} {unit} of {name}" for name, count in damaged.items() if count)
    if not told:
        raise CannotError(f"there was nothing to damage in {', '.join(damaged) or 'no file'}")
    return told


def _flip(path: Path, marker: bytes, chance: Random) -> int:
    content = bytearray(path.read_bytes())
    found: list[int] = []
    at = content.find(marker)
    while at >= 0:
        found.append(at)
        at = content.find(marker, at + len(marker))
    with path.open("r+b") as file:
        for at in found:
            # In its last bytes, and so that a letter stays a letter: the row can still be decoded.
            where = at + len(marker) - 1 - chance.randrange(min(4, len(marker)))
            file.seek(where)
            file.write(bytes([content[where] ^ 1]))
    return len(found)


def _garble(path: Path, _marker: bytes, chance: Random) -> int:
    pages = range(_HEAD_PAGES, path.stat().st_size // _PAGE)
    chosen = [page for page in pages if chance.random() < _DAMAGED]
    with path.open("r+b") as file:
        for page in chosen:
            file.seek(page * _PAGE)
            file.write(chance.randbytes(_PAGE))
    return len(chosen)
