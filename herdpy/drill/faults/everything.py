"""Everything is lost at once, with every disk: what is left is the archive, and a restore from it.

This fault has no end: the cluster does not come back. The runner stops the clients after it, has `restored`
make a server of what is archived, and looks there. It destroys data for good, so it is made in clusters of
the drill's own only.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from herdpy.drill.control import CannotError, ClusterControl, ClusterNeeds, ClusterObserver, ControlError
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults.fault import Fault, RestoredDatabase
from herdpy.drill.faults.ledgers import TINY_LEDGERS
from herdpy.testing.process import Child, PortReservation

INTERVAL_S = 2.0
"""The archive's, in the cluster that is made for the drill."""
_START_S = 60.0


class LoseEverything(Fault):
    """Kills every process and removes every directory of the cluster."""

    name = "lose-everything"
    summary = "every process is killed and every disk is lost; the archive is what is left"
    needs = ClusterNeeds(archive=True, settings={**TINY_LEDGERS, "backup.archive_interval_s": INTERVAL_S})
    is_final = True
    hold_s = 0.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        if not isinstance(control, LocalControl):
            return "it destroys all data for good, so it is made in a cluster of the drill's own only"
        if not _repository(view):
            return "the servers do not archive their logs (backup.url)"
        return None

    def prepare(self, control: ClusterControl, view: ClusterObserver) -> None:
        """See `Fault.prepare`."""
        self._repository = _repository(view)
        self._interval_s = float(view.setting("backup.archive_interval_s") or 0)
        self._tablespace = view.tablespace
        herdpy_command("backup", control.url, "--to", self._repository, "--full")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        if not isinstance(control, LocalControl):
            raise CannotError("this is not a cluster of the drill's own")
        places = control.places
        for kind in ("server", "bookie", "zookeeper"):
            for place in places:
                if place.kind == kind:
                    control.kill(place.name)
        for place in places:
            shutil.rmtree(control.cluster.data_path(place.name))
        return f"all {len(places)} processes are killed, and their disks are lost"

    @contextmanager
    def restored(self) -> Iterator[RestoredDatabase]:
        """Restore into a new directory, and serve that. Raises ControlError."""
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-restored-")))
            began = time.monotonic()
            directory = home / "database"
            said = herdpy_command(
                "restore", self._repository, directory, "--tablespace", self._tablespace, "--json"
            )
            took_s = time.monotonic() - began
            report = json.loads(said)
            port = stack.enter_context(_served(directory, home / "server.log"))
            yield RestoredDatabase(
                f"herdpy://herdpy@127.0.0.1:{port}/{self._tablespace}",
                report["lsn"],
                _microseconds(report["time"]),
                took_s,
                self._interval_s,
            )


def _repository(view: ClusterObserver) -> str:
    return (view.setting("backup.url") or "").strip('"')


def _microseconds(moment: str | None) -> int:
    return 0 if moment is None else round(datetime.fromisoformat(moment).timestamp() * 1e6)


def herdpy_command(*arguments: object) -> str:
    """What a command of HerdPy prints. Raises ControlError when it fails."""
    command = [sys.executable, "-P", "-m", "herdpy.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise ControlError(f"herdpy {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def _served(directory: Path, log: Path) -> Iterator[int]:
    """A server of a database's directory; its port."""
    reservation = PortReservation()
    settings = {
        "postgres.port": reservation.port,
        "http.enabled": "false",
        "grpc.enabled": "false",
    }
    words = [sys.executable, "-P", "-m", "herdpy.cli", "server", "--data", str(directory)]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    child = Child("the restored server", words, log)
    try:
        child.start()
        child.await_listening("127.0.0.1", reservation.port, _START_S)
        yield reservation.port
    finally:
        child.terminate()
        reservation.close()


FAULTS: tuple[type[Fault], ...] = (LoseEverything,)
