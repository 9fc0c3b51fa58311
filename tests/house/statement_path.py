"""The files that a prepared INSERT passes in the embedded database, and how often it calls into each.

    python -m tests.house.statement_path

A plan is kept for a text, so the statement that is looked at is the fiftieth of its text. Calls of generated
functions (row images, keys) are not counted: they are in no file.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from types import FrameType

import herdpy
from tests.house.watched_calls import is_ours, short, watched

_BEFORE = 50


def passed_files() -> Counter[str]:
    """The calls into each file of ours, on all threads, of one INSERT whose plan is kept."""
    found: Counter[str] = Counter()
    looking = threading.Event()

    def look(frame: FrameType, event: str, _argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and looking.is_set() and is_ours(path):
            found[path] += 1

    with (
        watched(look),
        tempfile.TemporaryDirectory() as directory,
        herdpy.connect(f"{directory}/db") as connection,
    ):
        connection.autocommit = True
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        cursor = connection.cursor()
        for number in range(_BEFORE):
            cursor.execute("INSERT INTO t VALUES (%s, %s)", (number, "x"))
        looking.set()
        cursor.execute("INSERT INTO t VALUES (%s, %s)", (_BEFORE, "x"))
        looking.clear()
    return found


def main() -> None:
    """Print the files by the directory that their imports start from, then how many there are."""
    found = passed_files()
    for path, calls in sorted(found.items()):
        print(f"{calls:4}  {short(path)}")
    print(f"{found.total()} calls into {len(found)} files")


if __name__ == "__main__":
    main()
