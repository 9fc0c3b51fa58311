"""Puts the image of a backup together in a file: packs by several threads, on again after a break.

Above ``herdpy.backup.pages``; below ``restoring``. Which packs are in the file is in a journal beside it,
written after the file was synced; its first line names the image, so a journal of another one counts for
nothing. Every page is compared with its hash before it is written.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from herdpy.backup.errors import DamagedPartError
from herdpy.backup.manifest import BackupManifest
from herdpy.backup.pages import PackUse, PageMap, packs_of, read_map, read_pack
from herdpy.backup.repository import Repository
from herdpy.log.files import sync_directory
from herdpy.machine import sync_all, sync_data

JOURNAL = "packs"
_SYNC_PACKS = 32

FetchProgress = Callable[[int, int], object]
"""Called with bytes of the image that are in the file, and how many there will be."""


def fetch_image(
    repository: Repository,
    manifest: BackupManifest,
    path: Path,
    *,
    jobs: int = 4,
    progress: FetchProgress = lambda _done, _total: None,
) -> int:
    """Put the image of a backup into file ``path``; returns how many of its bytes were there before.

    Raises:
        DamagedPartError: a part of the image is gone, or is not what was written.
        PlaceError, OSError: the repository cannot be read, or the file not be written.
    """
    image = manifest.image
    pages = read_map(repository, manifest.log_id, image.backup, image.maps)
    if len(pages) != image.pages:
        raise DamagedPartError(image.backup, f"its map has {len(pages)} pages, not {image.pages}")
    try:
        packs = packs_of(pages, manifest.log_id)
    except ValueError as error:
        raise DamagedPartError(image.backup, str(error)) from error
    return _ImageFile(repository, manifest, pages, path).fill(packs, jobs, progress)


class _ImageFile:
    def __init__(self, repository: Repository, manifest: BackupManifest, pages: PageMap, path: Path) -> None:
        self._repository = repository
        self._pages = pages
        self._page_bytes = manifest.image.page_bytes
        self._path = path
        self._journal = path.with_name(JOURNAL)
        self._title = f"{repository.id} {manifest.log_id} {manifest.image.backup}"
        self._lock = threading.Lock()
        self._written: list[str] = []
        self._settling: Future[None] = Future()  # one at a time, beside the reading
        self._settling.set_result(None)

    def fill(self, packs: list[PackUse], jobs: int, progress: FetchProgress) -> int:
        there = self._there()
        total = done = len(self._pages) * self._page_bytes
        missing = [one for one in packs if one.name not in there]
        done -= sum(len(one.pages) for one in missing) * self._page_bytes
        resumed = done
        if not there:
            self._begin(total)
        progress(done, total)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        threads = ThreadPoolExecutor(jobs, thread_name_prefix="herdpy-restore")
        try:
            running: dict[Future[int], None] = {}
            for one in missing:
                if len(running) >= jobs * 2:
                    done += self._collect(running, threads, descriptor)
                    progress(done, total)
                running[threads.submit(self._pack, one, descriptor)] = None
            while running:
                done += self._collect(running, threads, descriptor)
                progress(done, total)
            self._settling.result()
            self._settle(descriptor)
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
            os.close(descriptor)
        return resumed

    def _there(self) -> set[str]:
        """The packs that are in the file already."""
        try:
            title, *names = self._journal.read_text().split("\n")
        except FileNotFoundError:
            return set()
        size = len(self._pages) * self._page_bytes
        if title != self._title or not self._path.exists() or self._path.stat().st_size != size:
            return set()
        return set(names[:-1])  # what comes after the last line's end was not written whole

    def _begin(self, size_bytes: int) -> None:
        self._journal.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)
        with self._path.open("wb") as file:
            file.truncate(size_bytes)
        self._journal.write_text(self._title + "\n")
        sync_directory(self._path.parent)

    def _pack(self, use: PackUse, descriptor: int) -> int:
        size = self._page_bytes
        for first, data in read_pack(self._repository, self._pages, use, size):
            view, at = memoryview(data), first * size
            while view:
                count = os.pwrite(descriptor, view, at)
                view, at = view[count:], at + count
        with self._lock:
            self._written.append(use.name)
        return len(use.pages) * size

    def _collect(self, running: dict[Future[int], None], threads: ThreadPoolExecutor, descriptor: int) -> int:
        """Wait for some of what is under way; the bytes that it brought."""
        done = wait(running, return_when=FIRST_COMPLETED).done
        size = 0
        for one in done:
            del running[one]
            size += one.result()
        if len(self._written) >= _SYNC_PACKS and self._settling.done():
            self._settling.result()
            self._settling = threads.submit(self._settle, descriptor)
        return size

    def _settle(self, descriptor: int) -> None:
        """Bring the packs to the disk, and only then their names."""
        with self._lock:
            names, self._written = self._written, []
        sync_data(descriptor)
        with self._journal.open("a") as file:
            file.write("".join(f"{name}\n" for name in names))
            file.flush()
            sync_all(file.fileno())
