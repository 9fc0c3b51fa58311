"""Images of a store as pages in a repository: written with what changed alone, and put together again.

Above ``repository``; pages come from LMDB's file in its own order, and are known by their hashes. Pages that
an earlier backup of the same store has under the same number are not written again. New ones are gathered
into packs of 8 MiB, which are compressed and written by threads. How data passes through: bytes of the image
-> pages -> hashes -> compared with a :class:`PageMap` -> packs -> the new map, which names the pack and the
slot of each page. Every so often an index says what was written, so that a run that was broken off is of use
to the next.

In the backup's directory: ``pages-<n>`` are packs, ``map-<n>`` the map, ``index-<n>`` go when it is whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from xxhash import xxh3_128_digest

from herdpy.backup.errors import DamagedPartError
from herdpy.backup.manifest import backup_directory
from herdpy.backup.repository import Repository

PACK_BYTES: Final = 8 << 20
_HASH_BYTES = 16
_INDEX_EVERY = 32  # packs
_MAP_PAGES = 1 << 20  # of a part of the map
_NOWHERE = 0xFFFF_FFFF

Progress = Callable[[int, int], object]
"""Called with bytes of the image that were read so far, and bytes of files that were written."""

_Array = Any  # numpy arrays, whose types say little


class _MapHead(msgspec.Struct, frozen=True):
    sources: tuple[str, ...]
    first: int
    pages: int
    format: int = 1


@dataclass(slots=True)
class PageMap:
    """Where each page of an image is.

    Attributes:
        sources: ids of backups whose directories have packs.
        hashes: (pages, 16) bytes, XXH3-128 of each page.
        source, pack, slot: of each page: a place in ``sources``, the pack's number there, the place in it.
    """

    sources: tuple[str, ...] = ()
    hashes: _Array = field(default_factory=lambda: np.zeros((0, _HASH_BYTES), np.uint8))
    source: _Array = field(default_factory=lambda: np.zeros(0, np.uint32))
    pack: _Array = field(default_factory=lambda: np.zeros(0, np.uint32))
    slot: _Array = field(default_factory=lambda: np.zeros(0, np.uint32))

    def __len__(self) -> int:
        return len(self.source)

    def used_sources(self) -> tuple[str, ...]:
        """The backups that have pages of it."""
        return tuple(self.sources[at] for at in np.unique(self.source) if at != _NOWHERE)

    def parts(self) -> list[bytes]:
        """The contents of its parts."""
        found = []
        for first in range(0, max(len(self), 1), _MAP_PAGES):
            some = slice(first, first + _MAP_PAGES)
            head = msgspec.json.encode(_MapHead(self.sources, first, len(self.source[some])))
            arrays = (self.source[some], self.pack[some], self.slot[some])
            body = b"".join([self.hashes[some].tobytes(), *(one.astype("<u4").tobytes() for one in arrays)])
            found.append(len(head).to_bytes(4, "big") + head + body)
        return found

    @classmethod
    def of_parts(cls, parts: Iterable[bytes]) -> PageMap:
        """From what ``parts`` gave, in order. ValueError: it is something else."""
        sources: tuple[str, ...] = ()
        columns: list[list[_Array]] = [[], [], [], []]
        at = 0
        for data in parts:
            size = int.from_bytes(data[:4], "big")
            head = msgspec.json.decode(data[4 : 4 + size], type=_MapHead)
            if head.first != at or len(data) != 4 + size + head.pages * (_HASH_BYTES + 12):
                raise ValueError("a part of the map is missing, or is not where it belongs")
            sources, at = head.sources, at + head.pages
            view = np.frombuffer(data, np.uint8, offset=4 + size)
            cut = head.pages * _HASH_BYTES
            columns[0].append(view[:cut].reshape(-1, _HASH_BYTES))
            for place, one in enumerate(np.split(view[cut:].view("<u4"), 3)):
                columns[place + 1].append(one)
        if not columns[0]:
            raise ValueError("the map has no parts")
        return cls(sources, *(np.concatenate(one) for one in columns))


def write_map(repository: Repository, directory: str, pages: PageMap) -> tuple[int, int]:
    """Write the map of a backup; returns how many parts it has, and their bytes. PlaceError."""
    sizes = [repository.write(f"{directory}/map-{number}", data) for number, data in enumerate(pages.parts())]
    return len(sizes), sum(sizes)


def read_map(repository: Repository, log_id: str, backup_id: str, parts: int) -> PageMap:
    """The map of a backup. DamagedPartError; PlaceError."""
    directory = backup_directory(log_id, backup_id)
    name = f"{directory}/map-0"
    try:
        return PageMap.of_parts(repository.read(f"{directory}/map-{number}") for number in range(parts))
    except (ValueError, msgspec.MsgspecError) as error:
        raise DamagedPartError(name, str(error)) from error


# Rates.


class RateLimit:
    """Holds threads back so that together they do not pass a rate.

    Args:
        rate: bytes a second; 0: as fast as it goes.
    """

    def __init__(self, rate: float = 0.0) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free_s = 0.0

    def spend(self, size_bytes: int) -> None:
        """Wait until so many bytes may pass. Blocks."""
        if not self._rate:
            return
        with self._lock:
            now_s = time.monotonic()
            begin_s = max(now_s, self._free_s)
            self._free_s = begin_s + size_bytes / self._rate
        time.sleep(max(0.0, begin_s - now_s))


# Writing.


class PageWriter:
    """Takes an image from its beginning and writes the pages that are not known yet.

    For one thread, which calls :meth:`feed` with the image's bytes in order, then :meth:`finish`; after an
    exception :meth:`abandon`.

    Attributes:
        read_bytes, new_bytes: of the image so far; those of pages that were not known.
        stored_bytes: of the files that were written.

    Args:
        known: what is in the repository already: the parent's map, and what runs that were broken off left.
        jobs: how many threads compress and write.
    """

    def __init__(
        self,
        repository: Repository,
        log_id: str,
        backup_id: str,
        page_bytes: int,
        known: PageMap | None = None,
        *,
        jobs: int = 2,
        limit: RateLimit | None = None,
        progress: Progress = lambda _read, _written: None,
    ) -> None:
        self._repository = repository
        self._directory = backup_directory(log_id, backup_id)
        self._page_bytes = page_bytes
        self._known = known or PageMap()
        # A view: of a large store they are hundreds of megabytes.
        self._known_hashes = memoryview(self._known.hashes).cast("B") if len(self._known) else memoryview(b"")
        self._limit = limit or RateLimit()
        self._progress = progress
        self._jobs = jobs
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="herdpy-backup")
        self._running: dict[Future[int], int] = {}
        self._rest = bytearray()
        self._pack = bytearray()
        self._packed = 0  # bytes of it that are of this pack
        self._free: list[bytearray] = []
        self._pack_pages: list[int] = []
        self._pages = 0
        self._packs = 0
        self._indexed = 0
        self._hashes = bytearray()
        self._new: list[tuple[int, _Array]] = []  # of each pack its number and its pages
        self.read_bytes = self.new_bytes = self.stored_bytes = 0

    def feed(self, data: bytes | memoryview) -> None:
        """The next bytes of the image. Blocks while enough is under way. PlaceError."""
        with memoryview(data) as view:
            begin = 0
            if self._rest:
                begin = min(self._page_bytes - len(self._rest), len(view))
                self._rest += view[:begin]
                if len(self._rest) == self._page_bytes:
                    self._take(memoryview(bytes(self._rest)))
                    self._rest.clear()
            stop = len(view) - (len(view) - begin) % self._page_bytes
            if begin < stop:
                self._take(view[begin:stop])
            self._rest += view[max(begin, stop) :]
            self.read_bytes += len(view)
        self._progress(self.read_bytes, self.stored_bytes)

    def _take(self, pages: memoryview) -> None:
        """Whole pages: those that are not known go into packs, runs of them at once."""
        size, first = self._page_bytes, self._pages
        digests = [xxh3_128_digest(pages[start : start + size]) for start in range(0, len(pages), size)]
        self._hashes += b"".join(digests)
        self._pages += len(digests)
        begin = 0
        for place, digest in enumerate(digests):
            if self._is_known(first + place, digest):
                self._pack_run(pages[begin * size : place * size], first + begin)
                begin = place + 1
        self._pack_run(pages[begin * size :], first + begin)

    def _is_known(self, page: int, digest: bytes) -> bool:
        at = page * _HASH_BYTES
        if self._known_hashes[at : at + _HASH_BYTES] != digest:
            return False
        return int(self._known.source[page]) != _NOWHERE

    def _pack_run(self, pages: memoryview, first: int) -> None:
        """Pages that follow one another, the first of them by its number."""
        size = self._page_bytes
        while pages:
            room = max(PACK_BYTES - self._packed, size) // size * size
            some = pages[:room]
            self._pack[self._packed : self._packed + len(some)] = some
            self._packed += len(some)
            self._pack_pages.extend(range(first, first + len(some) // size))
            first += len(some) // size
            pages = pages[len(some) :]
            if self._packed + size > PACK_BYTES:
                self._send()

    def _send(self) -> None:
        """Have a thread write the pack."""
        while len(self._running) >= self._jobs * 2:
            self._collect(wait(self._running, return_when=FIRST_COMPLETED).done)
        name = f"{self._directory}/pages-{self._packs}"
        self._new.append((self._packs, np.array(self._pack_pages, np.uint64)))
        self.new_bytes += self._packed
        self._running[self._threads.submit(self._write, name, self._pack, self._packed)] = self._packs
        self._packs += 1
        # A buffer that a thread is done with: fresh memory costs as much as the copying.
        self._pack, self._packed = self._free.pop() if self._free else bytearray(), 0
        self._pack_pages = []
        if self._packs - self._indexed >= _INDEX_EVERY:
            self._index()

    def _write(self, name: str, pack: bytearray, size: int) -> int:
        with memoryview(pack) as view:
            data = self._repository.codec.encode(name, view[:size])
        self._free.append(pack)
        self._limit.spend(len(data))
        self._repository.place.put(name, data)
        return len(data)

    def _collect(self, done: Iterable[Future[int]]) -> None:
        for one in done:
            del self._running[one]
            self.stored_bytes += one.result()
        self._progress(self.read_bytes, self.stored_bytes)

    def _index(self) -> None:
        """Say which pages the packs since the last index have; all of those packs are written first."""
        self._collect(wait(self._running).done)
        some = self._new[self._indexed :]
        numbers = np.concatenate([pages for _pack, pages in some])
        hashes = np.frombuffer(self._hashes, np.uint8).reshape(-1, _HASH_BYTES)[numbers]
        counts = msgspec.json.encode([(pack, len(pages)) for pack, pages in some])
        body = len(counts).to_bytes(4, "big") + counts + numbers.astype("<u8").tobytes() + hashes.tobytes()
        self.stored_bytes += self._repository.write(f"{self._directory}/index-{self._packs}", body)
        self._indexed = self._packs

    def finish(self, backup_id: str) -> PageMap:
        """Write what is left, and wait for all of it; the map of the image. PlaceError."""
        if self._rest:
            raise ValueError(
                f"the image ends in the middle of a page, {len(self._rest)} bytes after the last"
            )
        if self._packed:
            self._send()
        self._collect(wait(self._running).done)
        self._threads.shutdown()
        made = _grown(self._known, self._pages)
        made.hashes = np.frombuffer(bytes(self._hashes), np.uint8).reshape(-1, _HASH_BYTES)
        _place(made, backup_id, self._new)
        return made

    def abandon(self) -> None:
        """Give up what is under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _grown(known: PageMap, pages: int) -> PageMap:
    """A copy for an image of so many pages."""

    def sized(array: _Array, fill: int) -> _Array:
        made = np.full((pages, *array.shape[1:]), fill, array.dtype)
        made[: min(pages, len(array))] = array[:pages]
        return made

    return PageMap(
        known.sources,
        sized(known.hashes, 0),
        sized(known.source, _NOWHERE),
        sized(known.pack, 0),
        sized(known.slot, 0),
    )


def _place(pages: PageMap, backup_id: str, packs: Iterable[tuple[int, Any]]) -> None:
    """Say that packs of a backup have these pages, in this order."""
    if backup_id not in pages.sources:
        pages.sources = (*pages.sources, backup_id)
    source = pages.sources.index(backup_id)
    for pack, numbers in packs:
        at = np.asarray(numbers, np.int64)
        pages.source[at], pages.pack[at] = source, pack
        pages.slot[at] = np.arange(len(at), dtype=np.uint32)


def with_leftovers(repository: Repository, log_id: str, known: PageMap, backup_id: str) -> PageMap:
    """What is known, and what an unfinished backup has written besides. DamagedPartError; PlaceError."""
    directory = backup_directory(log_id, backup_id)
    known = _grown(known, len(known))
    for name in sorted(repository.sizes(directory)):
        if not name.rpartition("/")[2].startswith("index-"):
            continue
        data = repository.read(name)
        size = int.from_bytes(data[:4], "big")
        counts = msgspec.json.decode(data[4 : 4 + size], type=list[tuple[int, int]])
        total = sum(count for _pack, count in counts)
        numbers = np.frombuffer(data, "<u8", total, 4 + size).astype(np.int64)
        hashes = np.frombuffer(data, np.uint8, offset=4 + size + 8 * total).reshape(-1, _HASH_BYTES)
        needed = int(numbers.max(initial=-1)) + 1
        if needed > len(known):  # with room, as there may be hundreds of indexes
            known = _grown(known, max(needed, len(known) * 3 // 2))
        known.hashes[numbers] = hashes
        start = 0
        for pack, count in counts:
            _place(known, backup_id, [(pack, numbers[start : start + count])])
            start += count
    return known


def remove_indexes(repository: Repository, log_id: str, backup_id: str) -> None:
    """Of a backup whose manifest is written: nobody goes on with it. PlaceError."""
    directory = backup_directory(log_id, backup_id)
    for name in repository.sizes(directory):
        if name.rpartition("/")[2].startswith("index-"):
            repository.delete(name)


# Reading.


@dataclass(frozen=True, slots=True)
class PackUse:
    """A pack, and which of its pages go where.

    Attributes:
        name: of its part.
        slots, pages: places in the pack, and the numbers of the pages there, ascending.
    """

    name: str
    slots: _Array
    pages: _Array


def packs_of(pages: PageMap, log_id: str) -> list[PackUse]:
    """Every pack that an image needs, in the order of its first page.

    Raises:
        ValueError: a page is nowhere.
    """
    if len(pages) and (pages.source == _NOWHERE).any():
        raise ValueError("the map has pages that no pack has")
    key = pages.source.astype(np.uint64) << np.uint64(32) | pages.pack.astype(np.uint64)
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    found = []
    for numbers in np.split(order, cuts) if len(order) else []:
        first = numbers[0]
        directory = backup_directory(log_id, pages.sources[pages.source[first]])
        found.append(PackUse(f"{directory}/pages-{pages.pack[first]}", pages.slot[numbers], numbers))
    return sorted(found, key=lambda one: int(one.pages[0]))


def read_pack(
    repository: Repository, pages: PageMap, use: PackUse, page_bytes: int
) -> list[tuple[int, memoryview]]:
    """Runs of pages: the number of the first, and their bytes. Every page is compared with its hash.

    Raises:
        DamagedPartError: the pack is gone, is not what was written, or is not what the map says.
        PlaceError: the place refuses it.
    """
    contents = memoryview(repository.read(use.name))
    starts = (use.slots.astype(np.int64) * page_bytes).tolist()
    found = b"".join([xxh3_128_digest(contents[start : start + page_bytes]) for start in starts])
    if starts and (max(starts) + page_bytes > len(contents) or found != pages.hashes[use.pages].tobytes()):
        page = _wrong_page(found, contents, pages, use, page_bytes)
        raise DamagedPartError(use.name, f"page {page} is not in it as the backup's map says")
    # A run is where both the pages and their places in the pack follow one another.
    ends = np.flatnonzero((np.diff(use.pages.astype(np.int64)) != 1) | (np.diff(use.slots) != 1)) + 1
    firsts = [0, *ends.tolist()] if starts else []
    lasts = [*ends.tolist(), len(starts)]
    numbers = use.pages.tolist()
    return [
        (numbers[first], contents[starts[first] : starts[last - 1] + page_bytes])
        for first, last in zip(firsts, lasts, strict=False)
    ]


def _wrong_page(found: bytes, contents: memoryview, pages: PageMap, use: PackUse, page_bytes: int) -> int:
    """The first page that a pack does not have as it should."""
    for at, (slot, page) in enumerate(zip(use.slots.tolist(), use.pages.tolist(), strict=True)):
        digest = found[at * _HASH_BYTES : (at + 1) * _HASH_BYTES]
        if (slot + 1) * page_bytes > len(contents) or digest != pages.hashes[page].tobytes():
            return int(page)
    raise AssertionError("all pages are right")
