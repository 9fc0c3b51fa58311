"""What clients lose to backups and to the archive beside them: a part of ``backup``."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import median

from backup_bed import BackupBed, aimed
from meanwhile import meanwhile
from measure import Line, in_turn
from postgresql import transactions_per_s, warm

from tests.support.server_process import RunningServer

LEAST = 0.9
"""Of the rate without."""
_CLIENTS = 8
_SCALE_ROWS = 100_000


def measure_clients(bed: BackupBed) -> list[Line]:
    """pgbench -N by eight clients, in turn with and without a backup or the archive."""
    with ExitStack() as stack:
        plain = stack.enter_context(_server(bed.directory / "plain"))
        archive = bed.directory / "archive"
        archiving = stack.enter_context(
            _server(bed.directory / "archived", f"backup.url={archive}", "backup.archive_interval_s=1")
        )
        warm((plain.port, archiving.port), 1 if bed.seconds == 1 else 10)

        def run(server: RunningServer) -> float:
            return transactions_per_s(server.port, "simple-update", "prepared", _CLIENTS, bed.seconds)

        def beside() -> float:
            with _backups(plain, bed.directory / "repository"):
                return run(plain)

        return [
            _line(
                "pgbench -N, 8 clients, beside full backups without a pause", bed, beside, lambda: run(plain)
            ),
            _line(
                "pgbench -N, 8 clients, archived every second",
                bed,
                lambda: run(archiving),
                lambda: run(plain),
            ),
        ]


def _line(name: str, bed: BackupBed, ours: Callable[[], float], peer: Callable[[], float]) -> Line:
    runs, peers = in_turn(bed.rounds, ours, peer)
    line = Line(name, median(runs), "tx/s", median(peers), runs=runs, peer_runs=peers)
    return aimed(line, f">= {LEAST:g} of the rate without", (line.ratio or 0.0) >= LEAST)


@contextmanager
def _server(data: Path, *settings: str) -> Iterator[RunningServer]:
    arguments = [part for one in settings for part in ("--set", one)]
    server = RunningServer(data, *arguments).ready()
    try:
        yield server
    finally:
        server.close()


def _backups(server: RunningServer, repository: Path) -> AbstractContextManager[None]:
    """Full backups of the server, one after the other; at least one is made."""
    command = [sys.executable, "-m", "herdpy.cli", "backup", f"grpc://127.0.0.1:{server.grpc_port}"]
    command += ["--to", str(repository), "--full"]

    def work(over: threading.Event) -> None:
        while True:
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                raise SystemExit(f"{' '.join(command)} failed:\n{made.stdout}{made.stderr}")
            if over.is_set():
                return

    return meanwhile(work)
