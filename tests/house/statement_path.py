"""The files that a prepared INSERT passes in the embedded database, and how often it calls into each.

    python -m tests.house.statement_path

A plan is kept for a text, so the statement that is looked at is the fiftieth of its text. Calls of generated
functions (row images, keys) are not counted: they are in no file.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import herdpy
from tests.house.structure import ROOTS

_STARTS = tuple(f"{directory}/" for directory, _ in ROOTS)
_BEFORE = 50


def passed_files() -> Counter[str]:
    """The calls into each file of ours, on all threads, of one INSERT whose plan is kept."""
    found: Counter[str] = Counter()
    looking = threading.Event()

    def look(frame: FrameType, event: str, _argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and looking.is_set() and path.startswith(_STARTS):
            found[path] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        with tempfile.TemporaryDirectory() as directory, herdpy.connect(f"{directory}/db") as connection:
            connection.autocommit = True
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
            cursor = connection.cursor()
            for number in range(_BEFORE):
                cursor.execute("INSERT INTO t VALUES (%s, %s)", (number, "x"))
            looking.set()
            cursor.execute("INSERT INTO t VALUES (%s, %s)", (_BEFORE, "x"))
            looking.clear()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def main() -> None:
    """Print the files by the directory that their imports start from, then how many there are."""
    found = passed_files()
    for path, calls in sorted(found.items()):
        start = next(start for directory, start in ROOTS if path.startswith(f"{directory}/"))
        print(f"{calls:4}  {Path(path).relative_to(start)}")
    print(f"{found.total()} calls into {len(found)} files")


if __name__ == "__main__":
    main()
