"""The disk under a simulated log: the log's own fake disk, which fails and loses power by the seed."""

from __future__ import annotations

import errno
import os
import random

from tests.log.conftest import Disk, Node

SECTOR = 512


class Crash(BaseException):
    """The power went, or the process was killed: nothing after this happens any more."""


class SimDisk(Disk):
    """A disk that fails by the seed.

    Attributes:
        rate: how likely an operation fails, 0 for a healthy disk.
        errors: what it fails with; None stands for a crash.
        crash_in: how many operations still succeed before power goes; None: it stays.
        dead: after a crash: every operation raises Crash, so that no clean-up reaches the disk.
    """

    FAILING = frozenset({"pwrite", "fdatasync", "fsync", "allocate", "create", "replace", "truncate"})

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng
        self.rate = 0.0
        self.errors: tuple[int | None, ...] = ()
        self.dead = False
        self.crash_in: int | None = None

    def _do(self, operation: str, path: str):
        if self.dead:
            raise Crash
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.dead = True
                raise Crash
        if operation in self.FAILING and self.rate and self.rng.random() < self.rate:
            error = self.rng.choice(self.errors)
            if error is None:
                self.dead = True
                raise Crash
            if operation == "pwrite" and error == errno.ENOSPC and self.rng.random() < 0.3:
                return self.rng.randrange(1, 40)  # a short write; the next one fails, or not
            raise OSError(error, os.strerror(error))
        return None

    def after_crash(self, rng: random.Random) -> SimDisk:
        """The disk that the next process finds: as a kill leaves it, or as a power cut does."""
        found = self.copy() if rng.random() < 0.3 else self.power_cut(lambda _path, ops: _survivors(rng, ops))
        after = SimDisk(rng)
        after.names_now, after.names_synced = found.names_now, found.names_synced
        return after


def _survivors(rng: random.Random, operations: list) -> list:
    """Which of the operations that were not synced reached the disk: none, a prefix, or odd sectors."""
    choice = rng.random()
    if choice < 0.35:
        return []
    kept = operations[: rng.randrange(len(operations) + 1)]
    if not kept or choice < 0.6:
        return kept
    last = kept[-1]
    if last[0] == "size":
        return kept
    at, data = last
    if choice < 0.8:
        return [*kept[:-1], (at, data[: rng.randrange(len(data))])]
    pieces, start = [], 0
    while start < len(data):
        end = min(len(data), start + SECTOR - (at + start) % SECTOR)
        if rng.random() < 0.5:
            pieces.append((at + start, data[start:end]))
        start = end
    return [*kept[:-1], *pieces]


__all__ = ["Crash", "Node", "SimDisk"]
