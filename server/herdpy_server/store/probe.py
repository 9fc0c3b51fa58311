"""Store layer, inside: whether LMDB's file can be trusted, found out without opening it.

LMDB maps its file and believes what it finds there: on a damaged one it may end the process. So a
store that was not closed, or whose header does not fit, is first walked by a child process, this
very file run as a script: every page that is reached is read, and the checksum of each table is
computed again and compared with the one that was kept. A store that was closed has a mark beside
it (which is gone as long as the store is open for writing) and only its header is looked at, here. So it is
when only the process ended, and not the machine: LMDB writes nothing over what its last commit needs, and
the system keeps what a process wrote. A mark made at opening names the system's run and the file. It is
believed once: a process that ends again without closing may have ended by a damage.
Meta pages are as LMDB 0.9 writes them (mdb.c: MDB_page, MDB_meta), in this machine's byte order.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

CLOSED = "closed"
OPENED = "opened"
_RUN = Path("/proc/sys/kernel/random/boot_id")
_MAGIC = 0xBEEF_C0DE
_PAGE_HEADER = struct.Struct("=QHHI")  # page number, padding, flags, bounds or overflow pages
_META = struct.Struct("=IIQQ48s48sQQ")  # magic, version, address, map size, two databases, last page, txn id
_P_META = 8
_MASK = (1 << 64) - 1


def header_fault(data: Path) -> str | None:
    """What is wrong with the meta pages of a ``data.mdb``, or None. A file that is not there is new."""
    if not data.exists():
        return None
    size = data.stat().st_size
    with data.open("rb") as file:
        first = _meta(file.read(_PAGE_HEADER.size + _META.size))
        if isinstance(first, str):
            return f"first header: {first}"
        page_size, *newest = first
        file.seek(page_size)
        second = _meta(file.read(_PAGE_HEADER.size + _META.size))
    if isinstance(second, str):
        return f"second header: {second}"
    if second[0] != page_size:
        return "the headers disagree on the size of a page"
    last_page = max(newest, second[1:], key=lambda one: one[1])[0]
    if size < (last_page + 1) * page_size:
        return f"the file has {size} bytes, {(last_page + 1) * page_size} are in use"
    return None


def newest_header(headers: bytes, page_bytes: int) -> tuple[int, int]:
    """(last page, transaction id) of the newer of the two header pages, which are given whole. ValueError."""
    found = [_meta(headers[:page_bytes]), _meta(headers[page_bytes:])]
    for one in found:
        if isinstance(one, str):
            raise ValueError(one)
    return max((one[1:] for one in found if not isinstance(one, str)), key=lambda one: one[1])


def mark_opened(path: Path, *, checked: bool) -> None:
    """Note in which run of the system the store in ``path`` was opened for writing, where that can be known.

    Args:
        checked: that it is whole is known otherwise than by such a mark.
    """
    named = _opened_now(path)
    if named is not None:
        (path / OPENED).write_text(named if checked else f"believed: {named}")


def machine_went_on(path: Path) -> bool:
    """Whether the system has run on since the store was opened for writing, and the file is that one."""
    named = _opened_now(path)
    try:
        return named is not None and (path / OPENED).read_text() == named
    except (OSError, UnicodeDecodeError):
        return False


def _opened_now(path: Path) -> str | None:
    try:
        run, file = _RUN.read_text().strip(), (path / "data.mdb").stat()
    except OSError:
        return None
    return f"{run} {file.st_dev} {file.st_ino}\n" if run else None


def _meta(data: bytes) -> tuple[int, int, int] | str:
    """(page size, last page, transaction id) of a meta page, or what is wrong with it."""
    if len(data) < _PAGE_HEADER.size + _META.size:
        return "the file ends in it"
    _, _, flags, _ = _PAGE_HEADER.unpack_from(data)
    magic, version, _, _, free, _, last_page, txn = _META.unpack_from(data, _PAGE_HEADER.size)
    if not flags & _P_META or magic != _MAGIC:
        return "it is not LMDB's"
    if version != 1:
        return f"version {version} of LMDB's format is not known"
    page_size = int.from_bytes(free[:4], sys.byteorder)
    if page_size < 512 or page_size & (page_size - 1):
        return f"pages of {page_size} bytes"
    return page_size, last_page, txn


def walk_fault(path: Path, timeout_s: float | None = None) -> str | None:
    """What a child process finds wrong with the store in ``path`` by reading all of it, or None."""
    if not sys.executable:
        return None  # embedded in something that is not Python: there is nothing to run
    run = subprocess.run(
        [sys.executable, "-P", "-S", __file__, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    if run.returncode == 0:
        return None
    if run.returncode < 0:
        return f"reading it ended the reader with signal {-run.returncode}"
    return run.stderr.decode(errors="replace").strip()[-500:] or f"reading it failed ({run.returncode})"


def walk(path: str) -> str | None:
    """What is wrong with a store, found by reading all of it: for a process that may end by it."""
    import lmdb
    from xxhash import xxh3_64_intdigest

    with lmdb.open(path, map_size=1 << 40, max_dbs=20_480, readonly=True, lock=False) as env:
        meta = env.open_db(b"meta", create=False)
        with env.begin() as txn:
            names = [bytes(name) for name, _ in txn.cursor()]
            kept = json.loads(txn.get(b"checksums", b"", meta) or b"null")
        if kept is None:
            return "its meta database is empty"
        for name in names:
            handle = env.open_db(name, create=False)
            rows = checksum = 0
            table = kept.get(name[1:].decode()) if name.startswith(b"t") else None
            with env.begin() as txn:
                if table is None:
                    rows = sum(1 for _ in txn.cursor(handle).iternext(keys=True, values=False))
                for key, value in txn.cursor(handle) if table is not None else ():
                    rows += 1
                    whole = key
                    if len(key) > 480:
                        end = 4 + int.from_bytes(value[:4], "big")
                        whole, value = value[4:end], value[end:]  # noqa: PLW2901
                    checksum += xxh3_64_intdigest(len(whole).to_bytes(4, "little") + whole + value)
                entries = txn.stat(handle)["entries"]
            if rows != entries:
                return f"{name.decode()} has {rows} entries where {entries} were written"
            if table is not None and (rows, checksum & _MASK) != (table[0], int(table[1], 16)):
                return f"the checksum of table {name[1:].decode()} is not the one that was written"
    return None


if __name__ == "__main__":
    try:
        found = walk(sys.argv[1])
    except Exception as error:  # noqa: BLE001 - whatever it is goes to whoever asked
        found = f"{type(error).__name__}: {error}"
    if found is not None:
        sys.stderr.write(found)
    sys.exit(0 if found is None else 1)
