"""Control of an operator's own cluster: an operator's file says how each thing is done there.

Above `command_file`. Commands are run without a shell; one that fails, or does not end in time, ends the
drill, with what it said.
"""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterable
from random import Random

from herdpy.drill.control.command_file import CommandFile, CommandProcess
from herdpy.drill.control.control import CLIENTS, Action, CannotError, ControlError, OneWay, ProcessPlace
from herdpy.testing.waiting import await_until

_CONNECT_TIMEOUT_S = 2.0
_SAID_CHARS = 2000


class CommandFailedError(ControlError):
    """A command of the file failed; the text has the command, and what it said."""


class CommandControl:
    """The cluster at `url`, whose processes and commands are in `file`."""

    def __init__(self, url: str, file: CommandFile) -> None:
        self._url = url
        self._file = file
        self._by_name = {one.place.name: one for one in file.processes}

    @property
    def url(self) -> str:
        """See `ClusterControl.url`."""
        return self._url

    @property
    def places(self) -> list[ProcessPlace]:
        """See `ClusterControl.places`."""
        order = ("zookeeper", "bookie", "server")
        return sorted((one.place for one in self._file.processes), key=lambda one: order.index(one.kind))

    def can(self, action: Action, process: str) -> str | None:
        """See `ClusterControl.can`."""
        if action in self._process(process).commands:
            return None
        return f"{self._file.path} has no command {action} for it"

    def is_running(self, process: str) -> bool:
        """See `ClusterControl.is_running`. Without a command for it: whether its port takes a connection."""
        found = self._process(process)
        if "is-running" in found.commands:
            return self._done(found, "is-running").returncode == 0
        return _answers(found.place)

    def kill(self, process: str) -> None:
        """See `ClusterControl.kill`."""
        self._do(process, "kill")

    def stop(self, process: str) -> None:
        """See `ClusterControl.stop`."""
        self._do(process, "stop")

    def start(self, process: str, *, wait: bool = True) -> None:
        """See `ClusterControl.start`."""
        place = self._process(process).place
        if not _serves(place):
            self._do(process, "start")
        if wait and not await_until(lambda: _serves(place), self._file.timeout_s):
            raise CommandFailedError(f"{process} was started and does not serve at {place.host}")

    def pause(self, process: str) -> None:
        """See `ClusterControl.pause`."""
        self._do(process, "pause")

    def resume(self, process: str) -> None:
        """See `ClusterControl.resume`."""
        self._do(process, "resume")

    def cut(self, process: str, *, from_: Iterable[str], one_way: OneWay | None = None) -> None:
        """See `ClusterControl.cut`: the command is run once for each peer."""
        self._demand(process, "cut")
        fields = self._process(process).commands["cut"].fields
        if one_way is not None and "one_way" not in fields:
            raise CannotError(
                f"{self._file.path}: the command cut has no {{one_way}}, so it cuts both ways only"
            )
        for peer in from_:
            host = self._host(peer)
            self._do(process, "cut", peer=peer, peer_host=host, one_way=one_way or "both")

    def heal(self, process: str) -> None:
        """See `ClusterControl.heal`."""
        self._do(process, "heal")

    def wipe(self, process: str) -> None:
        """See `ClusterControl.wipe`."""
        self._do(process, "wipe")

    def fill(self, process: str) -> None:
        """See `ClusterControl.fill`."""
        self._do(process, "fill")

    def drain(self, process: str) -> None:
        """See `ClusterControl.drain`."""
        self._do(process, "drain")

    def slow(self, process: str, delay_s: float) -> None:
        """See `ClusterControl.slow`."""
        self._do(process, "slow", delay_s=f"{delay_s:g}")

    def quicken(self, process: str) -> None:
        """See `ClusterControl.quicken`."""
        self._do(process, "quicken")

    def skew(self, process: str, seconds: float) -> None:
        """See `ClusterControl.skew`."""
        self._do(process, "skew", seconds=f"{seconds:g}")

    def rot(self, process: str, marker: str | None, chance: Random) -> str:
        """See `ClusterControl.rot`; what it says is the first line of the command's output."""
        said = self._do(process, "rot", marker=marker or "", seed=str(chance.randrange(1 << 31)))
        return said.partition("\n")[0] or "by the command rot"

    def _process(self, name: str) -> CommandProcess:
        found = self._by_name.get(name)
        if found is None:
            raise CannotError(f"{self._file.path} has no process {name}")
        return found

    def _host(self, peer: str) -> str:
        if peer != CLIENTS:
            return self._process(peer).place.host
        if self._file.clients_host is None:
            raise CannotError(f"{self._file.path} does not say where clients come from: clients_host")
        return self._file.clients_host

    def _demand(self, process: str, action: str) -> None:
        if action not in self._process(process).commands:
            raise CannotError(f"{action} {process}: {self._file.path} has no command {action} for it")

    def _do(self, process: str, action: str, **fields: str) -> str:
        self._demand(process, action)
        done = self._done(self._process(process), action, **fields)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-_SAID_CHARS:]
            words = " ".join(done.args)
            raise CommandFailedError(f"{action} {process}: {words} ended with {done.returncode}: {said}")
        return done.stdout.strip()

    def _done(self, process: CommandProcess, action: str, **fields: str) -> subprocess.CompletedProcess[str]:
        words = process.commands[action].filled({**process.fields, **fields})
        try:
            return subprocess.run(
                words,
                capture_output=True,
                text=True,
                check=False,
                errors="replace",
                timeout=self._file.timeout_s,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            what = f"{action} {process.place.name}: {' '.join(words)}"
            raise CommandFailedError(f"{what} did not end within {self._file.timeout_s:g} s") from error
        except OSError as error:
            raise CommandFailedError(f"{action} {process.place.name}: {' '.join(words)}: {error}") from error


def _answers(place: ProcessPlace) -> bool:
    port = next(iter(place.ports.values()))
    try:
        with socket.create_connection((place.host, port), _CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False


def _serves(place: ProcessPlace) -> bool:
    if place.kind != "server":
        return _answers(place)
    page = f"http://{place.host}:{place.ports['http']}/health"
    try:
        with urllib.request.urlopen(page, timeout=_CONNECT_TIMEOUT_S) as answer:
            return bool(json.load(answer).get("phase") == "serving")
    except (OSError, ValueError):
        return False
