"""Backups and restores beside zstd, the disk and PostgreSQL's pg_basebackup, and what they cost clients.

    python bench/backup.py [images clients replay] [--rows N] [--seconds N] [--quick] [--json FILE] [--dir D]

``images``: a full backup of N rows beside ``zstd -1`` of the same file and beside a copy of it with a sync,
whichever takes longer; its restore beside ``zstd -d`` and the copy; an increment after 1 % of rows changed.
``clients``: pgbench -N beside backups that follow one another, and on a server that archives its log,
each in turn with the same without it. ``replay``: a base of N rows and the log of changes of a tenth
of them, restored, beside pg_basebackup and the replay of PostgreSQL's WAL of the same changes.

Commands are run as people run them, with the start of their processes in the figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from measure import Line, report

sys.path.insert(0, str(Path(__file__).parents[1]))

from backup_bed import BackupBed
from backup_clients import measure_clients
from backup_images import measure_images
from backup_replay import measure_replay

PARTS = {"images": measure_images, "clients": measure_clients, "replay": measure_replay}
QUICK_ROWS = 20_000


def main() -> None:
    """Run all parts, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"{' '.join(PARTS)} (all)")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the database (10 million)")
    parser.add_argument("--seconds", type=int, default=20, help="of a run of pgbench (20)")
    parser.add_argument("--quick", action="store_true", help="few rows, short runs, one round")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    arguments = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir) as directory:
        bed = BackupBed(
            Path(directory),
            QUICK_ROWS if arguments.quick else arguments.rows,
            1 if arguments.quick else 3,
            1 if arguments.quick else arguments.seconds,
        )
        for name in arguments.parts or PARTS:
            lines += PARTS[name](bed)
    report("Backups and restores", lines, arguments.json)


if __name__ == "__main__":
    main()
