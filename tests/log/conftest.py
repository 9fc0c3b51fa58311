"""A disk in memory that forgets what was not synced, and that can be made to fail.

It stands where ``herdpy.log.file_ledger.OsFiles`` does. What a power cut leaves is chosen by the test:
nothing unsynced, or some of the unsynced writes, whole or cut at a byte or by sectors.
"""

import errno
import os
import threading

import pytest

from herdpy.log import START, FileLog, Insert, LoggedTransaction, LogSettings, run_blocking


class Node:
    def __init__(self):
        self.data = bytearray()  # what a reader sees
        self.synced = bytearray()  # what survives a power cut
        self.pending = []  # (offset, bytes) or ("size", n), since the last sync

    def apply(self, target, operation):
        at, what = operation
        if at == "size":
            del target[what:]
            target.extend(bytes(what - len(target)))
            return
        if len(target) < at + len(what):
            target.extend(bytes(at + len(what) - len(target)))
        target[at : at + len(what)] = what

    def change(self, operation):
        self.apply(self.data, operation)
        self.pending.append(operation)

    def sync(self):
        self.synced = bytearray(self.data)
        self.pending = []


class Disk:
    """Attributes a test sets: ``fail`` maps an operation's name to an errno (or a callable that
    is given the path and may raise, wait, or return how many bytes to write); ``lie`` makes syncs
    do nothing; ``log`` lists (operation, file name)."""

    def __init__(self):
        self.names_now, self.names_synced = {}, {}
        self.fds, self.next_fd = {}, 100
        self.fail, self.lie, self.log = {}, False, []
        self.lock = threading.RLock()

    def _do(self, operation, path):
        self.log.append((operation, os.path.basename(path)))
        fault = self.fail.get(operation)
        if callable(fault):
            return fault(path)
        if fault:
            raise OSError(fault, os.strerror(fault))
        return None

    def open(self, path, *, write, create=False):
        self._do("create" if create else "open", path)
        with self.lock:
            if create:
                if path in self.names_now:
                    raise FileExistsError(errno.EEXIST, "exists", path)
                self.names_now[path] = Node()
            if path not in self.names_now:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.next_fd += 1
            self.fds[self.next_fd] = (self.names_now[path], path)
            return self.next_fd

    def close(self, fd):
        del self.fds[fd]

    def pwrite(self, fd, data, offset):
        node, path = self.fds[fd]
        size = self._do("pwrite", path)
        data = bytes(data if size is None else data[:size])
        with self.lock:
            node.change((offset, data))
        return len(data)

    def pread(self, fd, size, offset):
        with self.lock:
            return bytes(self.fds[fd][0].data[offset : offset + size])

    def size(self, fd):
        return len(self.fds[fd][0].data)

    def fdatasync(self, fd):
        node, path = self.fds[fd]
        self._do("fdatasync", path)
        if not self.lie:
            node.sync()

    def fsync(self, fd):
        node, path = self.fds[fd]
        self._do("fsync", path)
        node.sync()

    def allocate(self, fd, offset, size):
        node, path = self.fds[fd]
        self._do("allocate", path)
        with self.lock:
            if offset + size > len(node.data):
                node.change(("size", offset + size))

    def truncate(self, fd, size):
        node, path = self.fds[fd]
        self._do("truncate", path)
        with self.lock:
            node.change(("size", size))

    def replace(self, old, new):
        self._do("replace", new)
        with self.lock:
            self.names_now[new] = self.names_now.pop(old)

    def remove(self, path):
        with self.lock:
            if path not in self.names_now:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._do("remove", path)
            del self.names_now[path]

    def sync_directory(self, path):
        self._do("sync_directory", path)
        self.names_synced = dict(self.names_now)

    def names(self, path):
        return sorted(os.path.basename(name) for name in self.names_now)

    def make_directory(self, path):
        pass

    # What tests do to it.

    def power_cut(self, keep=None):
        """The disk after the power failed. ``keep(path, pending)`` gives the unsynced operations
        that reached it (default: none). Names last when their directory was synced."""
        after = Disk()
        for path, node in self.names_synced.items():
            new = Node()
            new.data = bytearray(node.synced)
            for operation in keep(path, list(node.pending)) if keep else ():
                new.apply(new.data, operation)
            new.sync()
            after.names_now[path] = new
        after.names_synced = dict(after.names_now)
        return after

    def copy(self):
        """The disk as it is now, as after a process was killed."""
        after = Disk()
        for path, node in self.names_now.items():
            new = Node()
            new.data = bytearray(node.data)
            new.sync()
            after.names_now[path] = new
        after.names_synced = dict(after.names_now)
        return after

    def content(self, name):
        return self.names_now[os.path.join("/log", name)].data


class Kit:
    """Short ways to write and read a log."""

    Disk = Disk

    @staticmethod
    def open(disk, acknowledge=None, **options):
        settings = LogSettings(**{"preallocate_bytes": 8192, **options.pop("settings", {})})
        return FileLog("/log", acknowledge, files=disk, settings=settings, **options)

    @staticmethod
    def transaction(number, size=20):
        """A transaction whose one row says ``number``, and that has no zero byte in it."""
        row = str(number).encode().rjust(size, b"_")
        return LoggedTransaction(0x7001020304050607 + number % 100, [Insert(0x01010101, b"key", row)])

    @classmethod
    def put(cls, log, *numbers, size=20):
        """Append, block, and return the positions."""
        appends = [log.append(cls.transaction(number, size)) for number in numbers]
        for append in appends:
            append.block()
        return [append.result() for append in appends]

    @staticmethod
    def numbers(log, after=START, assembler=None):
        """The numbers of all transactions that took effect, in order."""
        from herdpy.log import TransactionAssembler

        assembler = assembler or TransactionAssembler(after)

        async def collect():
            found = []
            async for _, entry in log.read(after):
                found += [int(t.records[0].row.strip(b"_")) for _, t in assembler.feed(entry)]
            return found

        return run_blocking(collect())


@pytest.fixture
def kit():
    return Kit


@pytest.fixture
def disk():
    return Disk()
