"""kill -9 of a process that appends: every answered append is there, and none by half."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from herdpy.log import FileLog

CHILD = """
import sys, threading
from herdpy.log import FileLog, Insert, LogSettings, Transaction

directory, base = sys.argv[1], int(sys.argv[2])
log = FileLog(directory, settings=LogSettings(max_entry_bytes=3000, max_ledger_bytes=40000))

def work(thread):
    number = 0
    while True:
        size = 12000 if number % 10 == 9 else 50
        number += 1
        row = b"%d/%d/%d" % (base, thread, number)
        records = [Insert(1, b"a", row), Insert(1, b"b", row.rjust(size, b"_"))]
        append = log.append(Transaction(number, records))
        append.block()
        append.result()
        sys.stdout.write(row.decode() + "\\n")
        sys.stdout.flush()
        if number % 50 == 0 and thread == 0:
            log.note_lac()

threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
for thread in threads:
    thread.start()
threads[0].join()
"""


def _rounds(tmp_path, kit, rounds):
    directory = str(tmp_path / "log")
    answered, random_ = [], random.Random(7)
    for base in range(rounds):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, directory, str(base)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        # Killed after it answered some number of times: wherever it then is.
        answered += [child.stdout.readline().strip() for _ in range(random_.randrange(1, 200))]
        child.send_signal(signal.SIGKILL)
        answered += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        child.stdout.close()
    log = FileLog(directory)
    return log, [row for row in answered if row]


def _check(log, answered):
    from herdpy.log import START, TransactionAssembler

    found, assembler, cursor = [], TransactionAssembler(), log.cursor(START)
    while (entry := cursor.next(log.lac)) is not None:
        for _, transaction in assembler.feed(entry):
            first, second = (record.row.strip(b"_").decode() for record in transaction.records)
            assert first == second
            found.append(first)
    cursor.close()
    log.close()
    assert len(found) == len(set(found))
    assert set(answered) <= set(found)
    order = {row: place for place, row in enumerate(found)}
    threads = {row.rsplit("/", 1)[0] for row in found}
    for thread in threads:  # and in the order each thread appended
        rows = [row for row in found if row.rsplit("/", 1)[0] == thread]
        assert [int(row.rsplit("/", 1)[1]) for row in rows] == [*range(1, len(rows) + 1)]
        assert sorted(rows, key=order.__getitem__) == rows


def test_a_killed_writer_keeps_what_it_answered(tmp_path, kit):
    _check(*_rounds(tmp_path, kit, 3))


@pytest.mark.soak
def test_a_writer_killed_a_hundred_times_keeps_what_it_answered(tmp_path, kit):
    _check(*_rounds(tmp_path, kit, 100))
