"""The embedded database beside Python's sqlite3 (WAL, synchronous=FULL), in one run.

Every figure that has a peer is measured in turn with it, several rounds, and reported as the median
and the median ratio of the pairs. ``--quick`` runs small sizes, to see that everything works.

Run it with ``make bench``, or ``python bench/embedded.py --help``.

``databases`` makes what is measured, ``writing`` and ``reading`` measure, ``measure`` reports.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from databases import INSERT, TABLE, Databases, judged, rows
from measure import Line, report
from reading import Reading
from writing import executemany, ingest, insert_one_thread, insert_threads

import herdpy


def recovery(made: Databases) -> Line:
    """A process loads rows and is gone before any checkpoint: how fast the log is replayed."""
    count = 500_000 // made.scale
    runs = []
    for turn in range(made.rounds):
        path = made.directory / f"crash{turn}"
        subprocess.run([sys.executable, __file__, "--crash", str(path), "--rows", str(count)], check=True)
        from herdpy_server.embedded import opened

        with opened(path) as database:
            found = database.recovery
            assert found.records >= count, f"replayed {found.records} of {count}"
            runs.append(found.records / found.seconds)
    return judged("recovery, rows replayed", runs, [], "rows/s", None, at_least=200_000)


def crash(path: str, count: int) -> None:
    """Load ``count`` rows one image at a time, acknowledge them, and vanish without closing."""
    connection = herdpy.connect(path, autocommit=True, checkpoint_interval_s=3600, checkpoint_rows=10**9)
    cursor = connection.cursor()
    cursor.execute(TABLE)
    for first in range(0, count, 10_000):
        cursor.executemany(INSERT, rows(first, min(10_000, count - first)))
    os._exit(0)


def main() -> None:
    """Run everything, or the parts that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="insert1 insert16 executemany ingest reading recovery (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    parser.add_argument("--crash", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.crash:
        crash(arguments.crash, arguments.rows)
    with tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir) as directory:
        made = Databases(Path(directory), quick=arguments.quick)
        parts: dict[str, Callable[[], Line | list[Line]]] = {
            "insert1": lambda: insert_one_thread(made),
            "insert16": lambda: insert_threads(made),
            "executemany": lambda: executemany(made),
            "ingest": lambda: ingest(made),
            "reading": lambda: Reading(made).run(),
            "recovery": lambda: recovery(made),
        }
        lines: list[Line] = []
        for name in arguments.parts or parts:
            measured = parts[name]()
            lines += measured if isinstance(measured, list) else [measured]
    report("embedded HerdPy beside sqlite3", lines, arguments.json)


if __name__ == "__main__":
    main()
