"""The server beside a PostgreSQL on the same disk, in one run: pgbench's scripts, COPY, bulk, and workers.

    python bench/server.py [--quick] [--json FILE] [--dir DIRECTORY]

Both are processes of their own, reached over TCP on the loopback, and both answer a COMMIT when it is on the
disk (PostgreSQL with fsync and synchronous_commit on). Each figure is measured in turn on both, several
rounds, and reported as the median and the median ratio of the pairs. pgbench's tables are at scale 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from answers import measure_answers, measure_idle
from bulk import measure_bulk
from measure import Line, in_turn, rate, report
from queue_statements import measure_queue
from workers import measure_workers

sys.path.insert(0, str(Path(__file__).parents[1]))

from postgresql import SCRIPTS, connect, postgres, rate_and_count, warm
from processor_time import Measured, listener, measured, median_costs

from tests.support.server_process import RunningServer

TABLE = (
    "CREATE TABLE copied (id BIGINT PRIMARY KEY, a INTEGER, b DOUBLE PRECISION, c TEXT, d BIGINT, g INTEGER)"
)
WANTED_COPY = {"in csv": 120_000, "in text": 120_000, "out csv": 300_000, "out text": 300_000}
"""Rows a second."""
LEAST_RATES = {
    ("select-only", 1): 0.8, ("select-only", 8): 1.0, ("select-only", 32): 1.1,
    ("simple-update", 1): 1.0, ("simple-update", 32): 1.3,
    ("tpcb-like", 1): 0.9, ("tpcb-like", 8): 1.3, ("tpcb-like", 32): 1.5,
}  # fmt: skip
"""Script and clients, prepared, and how many times PostgreSQL's rate is aimed at."""


@contextmanager
def herdpy(directory: Path) -> Iterator[int]:
    """A HerdPy with its own defaults in this directory; its port."""
    server = RunningServer(directory / "herdpy").ready()
    try:
        yield server.port
    finally:
        server.close()


def rows_as_copy(count: int, separator: str) -> bytes:
    """Rows for ``copied``, whose texts need no quoting."""
    rows = ((i, i % 1000, i * 0.5, f"name of {i}", i * 7, i % 100) for i in range(count))
    return "".join(separator.join(map(str, row)) + "\n" for row in rows).encode()


def copy_in(port: int, form: str, data: bytes, count: int) -> float:
    """Rows a second into a new table."""
    with connect(port) as connection:
        connection.execute("DROP TABLE IF EXISTS copied")
        connection.execute(TABLE)

        def work() -> None:
            with connection.cursor().copy(f"COPY copied FROM STDIN (FORMAT {form})") as copy:
                for at in range(0, len(data), 1 << 16):
                    copy.write(data[at : at + (1 << 16)])

        return rate(count, work)


def copy_out(port: int, form: str, count: int) -> float:
    """Rows a second out of the table that was copied in."""
    with connect(port) as connection:

        def work() -> None:
            size = 0
            with connection.cursor().copy(f"COPY copied TO STDOUT (FORMAT {form})") as copy:
                for part in copy:
                    size += len(part)
            assert size > count

        return rate(count, work)


def measure_pgbench(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """The scripts, in pgbench's prepared mode, and once each in its simple one."""
    rounds, seconds = (1, 1) if quick else (5, 4)
    warm((ours, peer), 1 if quick else 10)
    families = {ours: {"server": listener(ours)}, peer: {"postgres": listener(peer)}}
    lines = []
    for script in SCRIPTS:
        for mode, clients in (("prepared", 1), ("prepared", 8), ("prepared", 32), ("simple", 8)):

            def run(port: int, script: str = script, mode: str = mode, clients: int = clients) -> Measured:
                load = partial(rate_and_count, port, script, mode, clients, seconds)
                return measured(families[port], load)

            found, peer_found = in_turn(rounds, partial(run, ours), partial(run, peer))
            runs, peer_runs = [one.rate for one in found], [one.rate for one in peer_found]
            name = f"pgbench {script}, {mode}, {clients} client{'s' if clients > 1 else ''}"
            line = Line(name, median(runs), "tx/s", median(peer_runs), runs=runs, peer_runs=peer_runs)
            line.costs, line.peer_costs = median_costs(found), median_costs(peer_found)
            least = LEAST_RATES.get((script, clients)) if mode == "prepared" else None
            if least is not None:
                line.wanted, line.met = f">= {least:g} of the peer", (line.ratio or 0.0) >= least
            lines.append(line)
    return lines


def measure_copy(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """COPY of six columns in and out, by one client."""
    rounds, count = (1, 20_000) if quick else (3, 500_000)
    lines = []
    for form, separator in (("text", "\t"), ("csv", ",")):
        data = rows_as_copy(count, separator)

        def put(port: int, form: str = form, data: bytes = data) -> float:
            return copy_in(port, form, data, count)

        def get(port: int, form: str = form) -> float:
            return copy_out(port, form, count)

        for direction, run in (("in", put), ("out", get)):
            runs, peer_runs = in_turn(rounds, partial(run, ours), partial(run, peer))
            line = Line(f"COPY {direction}, {form}", median(runs), "rows/s", median(peer_runs))
            line.runs, line.peer_runs = runs, peer_runs
            wanted = WANTED_COPY[f"{direction} {form}"]
            line.wanted, line.met = f">= {wanted:,} rows/s", line.ours >= wanted
            lines.append(line)
    return lines


def main() -> None:
    """Run all parts, or the one that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"pgbench": measure_pgbench, "copy": measure_copy, "workers": measure_workers}
    parts |= {"answers": measure_answers, "idle": measure_idle, "bulk": measure_bulk, "queue": measure_queue}
    parser.add_argument("parts", nargs="*", help=f"{' '.join(parts)} (all)")
    parser.add_argument("--quick", action="store_true", help="short runs, one round")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    arguments = parser.parse_args()
    lines: list[Line] = []
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir))
        )
        peer = stack.enter_context(postgres(directory))
        ours = stack.enter_context(herdpy(directory))
        for name in arguments.parts or parts:
            lines += parts[name](ours, peer, quick=arguments.quick)
    report("HerdPy's server beside PostgreSQL", lines, arguments.json)


if __name__ == "__main__":
    main()
