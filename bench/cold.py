"""A database of three times the memory: what reads of its hot tenth lose to reads of cold keys beside them.

    python bench/cold.py [--quick] [--json FILE] [--dir DIRECTORY]

The server runs in a memory cgroup whose limit is what the process needs for itself and a third of the
database's file, so that the system keeps a third of the pages. Needs root and Linux's memory cgroup (version
1 or 2). Eight clients read random keys of the hot tenth; then one more reads random keys of all others.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from measure import Line, rate, report

sys.path.insert(0, str(Path(__file__).parents[1]))

from postgresql import DATABASE, binaries, connect, pgbench

from tests.support.server_process import RunningServer

ROW_BYTES = 1000
HOT_SHARE, MEMORY_SHARE = 0.1, 1 / 3
LEAST = 0.5
"""Of the rate of the hot tenth alone."""
_TABLE = "CREATE TABLE cold (k INT PRIMARY KEY, v TEXT)"
_BATCH = 10_000


@contextmanager
def memory_group() -> Iterator[Path]:
    """A new memory cgroup. OSError: there can be none."""
    root = Path("/sys/fs/cgroup")
    old = root / "memory"
    group = (old if old.is_dir() else root) / f"herdpy-bench-{os.getpid()}"
    group.mkdir()
    try:
        if not (group / "memory.limit_in_bytes").exists() and not (group / "memory.max").exists():
            raise OSError(f"{group} has no limit of memory")
        yield group
    finally:
        group.rmdir()


def confine(group: Path, pid: int, limit_bytes: int) -> None:
    """Have a process, and the pages that it reads from now on, take no more than that."""
    limit = group / "memory.limit_in_bytes"
    (limit if limit.exists() else group / "memory.max").write_text(str(limit_bytes))
    (group / "cgroup.procs").write_text(str(pid))


def fill(port: int, rows: int) -> float:
    """Make the table; rows a second."""
    rng = random.Random(1)

    def load() -> None:
        with connection.cursor().copy("COPY cold FROM STDIN") as copy:
            for first in range(0, rows, _BATCH):
                text = rng.randbytes(ROW_BYTES // 2 * _BATCH).hex()
                lines = (
                    f"{first + at}\t{text[at * ROW_BYTES : (at + 1) * ROW_BYTES]}\n" for at in range(_BATCH)
                )
                copy.write("".join(lines))

    with connect(port) as connection:
        connection.execute(_TABLE)
        return rate(rows, load)


def forget(path: Path) -> None:
    """Have the system drop its pages of a file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def scan(port: int, upto: int, rows: int) -> float:
    """Read all rows up to a key, in order; seconds."""
    with connect(port) as connection:
        connection.execute("SET herdpy.engine = 'own'")
        began = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute("SELECT k FROM cold WHERE k >= 0 AND k < %s", (upto,))
            assert cursor.rowcount == min(upto, rows)
        return time.perf_counter() - began


def own_bytes(pid: int) -> int:
    """What a process has in memory that is no page of a file."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) << 10


def loop_faults(pid: int) -> int:
    """How often the first thread of a process, the server's loop, has waited for a page."""
    text = Path(f"/proc/{pid}/task/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[9])


class Reads:
    """pgbench scripts that read random keys of a range."""

    def __init__(self, directory: Path, port: int, rows: int, seconds: int) -> None:
        hot = int(rows * HOT_SHARE)
        self._logs = directory / "logs"
        self._logs.mkdir()
        self._port = port
        self._seconds = seconds
        self._hot, self._cold = directory / "hot.sql", directory / "cold.sql"
        for path, first, last in ((self._hot, 0, hot - 1), (self._cold, hot, rows - 1)):
            path.write_text(f"\\set k random({first}, {last})\nSELECT v FROM cold WHERE k = :k;\n")

    def hot(self, seconds: int) -> float:
        """Reads a second of eight clients."""
        arguments = ("-n", "-M", "prepared", "-c", "8", "-j", "2", "-T", str(seconds), "-f", str(self._hot))
        arguments += ("--log", f"--log-prefix={self._logs}/hot")
        return _rate(pgbench(self._port, *arguments))

    def latencies_ms(self) -> list[float]:
        """Of the hot reads since this was asked last, in order."""
        found = []
        for log in self._logs.iterdir():
            found += [int(line.split()[2]) / 1000 for line in log.read_text().splitlines()]
            log.unlink()
        return sorted(found)

    def both(self) -> tuple[float, float]:
        """The same beside one that reads what is cold; and that one's."""
        command = [binaries() / "pgbench", "-h", "127.0.0.1", "-p", str(self._port), "-U", "herdpy", "-n"]
        command += ["-M", "prepared", "-c", "1", "-T", str(self._seconds + 1), "-f", self._cold, DATABASE]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as beside:
            hot = self.hot(self._seconds)
            text, _ = beside.communicate()
        return hot, _rate(text)


def _rate(text: str) -> float:
    found = re.search(r"tps = ([\d.]+)", text)
    if found is None:
        raise SystemExit(f"pgbench says no rate: {text}")
    return float(found[1])


def measure(directory: Path, *, quick: bool) -> list[Line]:
    """Fill, start again in little memory, and read."""
    rows, seconds, rounds = (100_000, 2, 1) if quick else (1_500_000, 10, 5)
    server = RunningServer(directory / "herdpy").ready()
    filled = fill(server.port, rows)
    server.stop()
    file = next((directory / "herdpy").rglob("store/data.mdb"))
    size = file.stat().st_size
    forget(file)
    with memory_group() as group:
        server = RunningServer(directory / "herdpy").ready()
        pid = server.process.pid
        limit = own_bytes(pid) + int(size * MEMORY_SHARE)
        confine(group, pid, limit)
        try:
            reads = Reads(directory, server.port, rows, seconds)
            scanned_s = scan(server.port, rows, rows)
            scan(server.port, int(rows * HOT_SHARE), rows)
            reads.hot(seconds)
            reads.latencies_ms()
            alone, beside, cold, slow, slowest, faults = [], [], [], [], 0.0, []
            for _ in range(rounds):
                alone.append(reads.hot(seconds))
                reads.latencies_ms()
                before = loop_faults(pid)
                hot, others = reads.both()
                faults.append((loop_faults(pid) - before) / others / (seconds + 1))
                beside.append(hot)
                cold.append(others)
                latencies_ms = reads.latencies_ms()
                slow.append(latencies_ms[len(latencies_ms) * 99 // 100])
                slowest = max(slowest, latencies_ms[-1])
        finally:
            server.close()
    share = median(b / a for a, b in zip(alone, beside, strict=True))
    name = f"hot tenth of {size >> 20} MiB in {limit >> 20} MiB"
    kept = Line(f"{name}, beside cold reads", median(beside), "reads/s", runs=beside)
    kept.wanted, kept.met = f">= {LEAST:g} of alone", share >= LEAST
    return [
        Line("COPY of the table", filled, "rows/s"),
        Line(f"{name}, alone", median(alone), "reads/s", runs=alone),
        kept,
        Line("the share that is kept", share, ""),
        Line("pages that the loop waited for, a cold read", median(faults), "", runs=faults),
        Line("p99 of hot reads beside cold ones", median(slow), "ms", runs=slow),
        Line("the slowest of them", slowest, "ms"),
        Line("a scan of all, nothing of it in memory", size / scanned_s / (1 << 20), "MiB/s"),
        Line("cold reads beside it, one client", median(cold), "reads/s", runs=cold),
    ]


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small, one round: to see that it works")
    parser.add_argument("--json", metavar="FILE", help="keep the figures")
    parser.add_argument("--dir", metavar="DIRECTORY", help="where the database is; its disk matters")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        lines = measure(Path(directory), quick=options.quick)
    report("A database of three times the memory", lines, options.json)


if __name__ == "__main__":
    main()
