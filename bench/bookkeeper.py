"""The BookKeeper client beside BookKeeper's own Java client: the same bookies, the same run, in turn.

Both write 3-3-2 ledgers with CRC32C digests to three real bookies of this machine, each client in a process
of its own, Java's without its limit of adds a second (throttle=0). Figures are medians; the ratio is that of
each pair of neighbouring runs, its median, lowest and highest.

    python bench/bookkeeper.py                      everything, five pairs: about seven minutes
    python bench/bookkeeper.py many one --pairs 9   two parts, more pairs
    python bench/bookkeeper.py read --json read.json
    python bench/bookkeeper.py --quick              tiny sizes, one pair, to see that it works

Parts: many (1,000 appends in flight, CPU), some (100), one (latency, flushing bookies), sizes (100 B,
10 KiB, 1 MiB), read, tail, memory (a writer faster than its bookies), default (latency, BookKeeper's own
settings of the journal). Java 17 and Maven are needed; the jars are fetched at the first run.

``bookkeeper_parts`` says what is measured, ``bookkeeper_clients`` runs the clients, ``bookkeeper_client`` and
``java/BookKeeperBench.java`` are the clients, ``bookkeeper_report`` reports.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from bookkeeper_clients import opened_bed
from bookkeeper_parts import DEFAULT_JOURNAL, FULL, PARTS, QUICK
from bookkeeper_report import Row, report

from herdpy.testing import KitError


def main() -> None:
    """Run everything, or the parts that are named."""
    known = [*PARTS, *DEFAULT_JOURNAL]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=" ".join(known))
    parser.add_argument("--pairs", type=int, help="turns of each client (5)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one pair")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    arguments = parser.parse_args()
    wanted = arguments.parts or known
    for part in wanted:
        if part not in known:
            parser.error(f"there is no part {part!r}; parts: {' '.join(known)}")
    pairs = arguments.pairs or (1 if arguments.quick else 5)
    scale = QUICK if arguments.quick else FULL
    rows: list[Row] = []
    runs: dict[str, Any] = {}
    failed: list[str] = []
    for flush, parts in ((True, PARTS), (False, DEFAULT_JOURNAL)):
        chosen = [part for part in wanted if part in parts]
        if not chosen:
            continue
        with opened_bed(pairs, journal_flush_when_queue_empty=flush) as bed:
            bed.warm_up(scale.seconds)
            for part in chosen:
                print(f"{part} ...", file=sys.stderr, flush=True)
                try:
                    rows += parts[part](bed, scale)
                except (KitError, RuntimeError, TimeoutError) as error:
                    failed.append(part)
                    print(f"{part} failed: {error}", file=sys.stderr, flush=True)
            runs |= bed.runs
    report(rows, runs, arguments.json, lambda: os.getloadavg()[0])
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
