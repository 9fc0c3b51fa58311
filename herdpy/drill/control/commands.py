"""Control of an operator's own cluster: the operator's file says how each thing is done there.

The file is TOML: a table of commands, and one table for each process. A command is text that is split into
words as a shell does it, or a list of words; then fields in braces are replaced, word by word, so that no
value can become another word or be run by a shell. conf/drill-*.toml are examples. Commands are run without
a shell; one that fails, or does not end in time, ends the drill, with what it said.
"""

from __future__ import annotations

import json
import shlex
import socket
import string
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from herdpy.drill.control.control import (
    CLIENTS,
    Action,
    CannotError,
    ControlError,
    Kind,
    OneWay,
    ProcessPlace,
)
from herdpy.testing.process import await_until

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "kill": (),
    "stop": (),
    "start": (),
    "is-running": (),
    "pause": (),
    "resume": (),
    "kill-supervisor": (),
    "pause-supervisor": (),
    "resume-supervisor": (),
    "cut": ("peer", "peer_host", "one_way"),
    "heal": (),
    "wipe": (),
    "fill": (),
    "drain": (),
    "slow": ("delay_s",),
    "quicken": (),
    "skew": ("seconds",),
    "rot": ("marker", "seed"),
}
"""Each command, and the fields that it has beside those of the process."""

UNDOES: Mapping[str, str] = {
    "kill": "start",
    "stop": "start",
    "pause": "resume",
    "pause-supervisor": "resume-supervisor",
    "cut": "heal",
    "fill": "drain",
    "slow": "quicken",
}
"""What must be there as well where the first is: a drill leaves nothing as it made it."""

_PORTS: Mapping[Kind, tuple[str, ...]] = {
    "server": ("sql", "http"),
    "bookie": ("bookie",),
    "zookeeper": ("client",),
}
_TOP = ("commands", "process", "clients_host", "timeout_s")
_TIMEOUT_S = 60.0


class CommandFileError(ValueError):
    """The file is not one of commands; the text names the file, and the key that is wrong."""


@dataclass(frozen=True)
class CommandTemplate:
    """One command: its words, with fields in braces."""

    words: tuple[str, ...]

    @property
    def fields(self) -> set[str]:
        """The names in braces."""
        formatter = string.Formatter()
        return {name for word in self.words for _text, name, _spec, _how in formatter.parse(word) if name}

    def filled(self, fields: Mapping[str, str]) -> list[str]:
        """The words to be run."""
        return [word.format_map(fields) for word in self.words]


@dataclass(frozen=True)
class CommandProcess:
    """One process of the cluster: where it is, its fields for commands, and its commands."""

    place: ProcessPlace
    fields: Mapping[str, str]
    commands: Mapping[str, CommandTemplate]


@dataclass(frozen=True)
class CommandFile:
    """A file that is right. `clients_host` is the drill's own address as the cluster sees it."""

    processes: Sequence[CommandProcess]
    clients_host: str | None = None
    timeout_s: float = _TIMEOUT_S
    path: Path = field(default_factory=Path)

    @classmethod
    def load(cls, path: Path) -> CommandFile:
        """Read and check a file. Raises CommandFileError, OSError."""
        try:
            found = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise CommandFileError(f"{path}: {error}") from error
        return _Reader(path).file(found)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def file(self, found: dict[str, Any]) -> CommandFile:
        self._only(found, _TOP, "")
        common = self._commands(found.get("commands", {}), "commands")
        tables = found.get("process", [])
        if not isinstance(tables, list) or not tables:
            raise self._wrong("process", "name each process of the cluster in a table [[process]]")
        processes = [self._process(one, common, f"process {n}") for n, one in enumerate(tables, 1)]
        names = [one.place.name for one in processes]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise self._wrong("process", f"there are two of the name {twice[0]}")
        if not any(one.place.kind == "server" for one in processes):
            raise self._wrong("process", 'there is no process of kind "server"')
        clients, timeout_s = found.get("clients_host"), found.get("timeout_s", _TIMEOUT_S)
        if clients is not None and not isinstance(clients, str):
            raise self._wrong("clients_host", "must be a host's name or address")
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or timeout_s <= 0:
            raise self._wrong("timeout_s", "must be a number of seconds above 0")
        return CommandFile(processes, clients, float(timeout_s), self._path)

    def _process(self, table: Any, common: dict[str, CommandTemplate], where: str) -> CommandProcess:
        if not isinstance(table, dict):
            raise self._wrong(where, "must be a table")
        name, kind, host = (self._text(table, key, where) for key in ("name", "kind", "host"))
        known_kind = next((one for one in _PORTS if one == kind), None)
        if known_kind is None:
            raise self._wrong(f"{where}.kind", f"must be one of {', '.join(_PORTS)}, not {kind}")
        where = f"process {name}"
        ports = {port: self._port(table, port, where) for port in _PORTS[known_kind]}
        rest = {key: value for key, value in table.items() if key != "commands"}
        for key, value in rest.items():
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                raise self._wrong(f"{where}.{key}", "must be text or a whole number, for {" + key + "}")
        fields = {key: str(value) for key, value in rest.items()}
        own = self._commands(table.get("commands", {}), f"{where}.commands")
        commands = {**common, **own}
        for one, command in commands.items():
            if unknown := sorted(command.fields - set(fields) - set(COMMANDS[one])):
                known = ", ".join(sorted({*fields, *COMMANDS[one]}))
                raise self._wrong(
                    f"commands.{one}", f"{{{unknown[0]}}} is no field of {name}, which has {known}"
                )
        return CommandProcess(ProcessPlace(name, known_kind, host, ports), fields, commands)

    def _commands(self, table: Any, where: str) -> dict[str, CommandTemplate]:
        if not isinstance(table, dict):
            raise self._wrong(where, "must be a table")
        self._only(table, tuple(COMMANDS), where)
        commands = {name: self._command(value, f"{where}.{name}") for name, value in table.items()}
        for name in commands:
            if (undo := UNDOES.get(name)) is not None and undo not in commands:
                raise self._wrong(f"{where}.{name}", f"needs {undo}, which undoes it")
        return commands

    def _command(self, value: Any, where: str) -> CommandTemplate:
        if isinstance(value, str):
            try:
                value = shlex.split(value)
            except ValueError as error:
                raise self._wrong(where, str(error)) from error
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise self._wrong(where, "must be a command, as text or as a list of words")
        command = CommandTemplate(tuple(value))
        try:
            command.filled(_Any())
        except (ValueError, IndexError, AttributeError) as error:
            message = f"{error}: write {{{{ and }}}} for braces that are meant"
            raise self._wrong(where, message) from error
        return command

    def _text(self, table: dict[str, Any], key: str, where: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{where}.{key}", "must be given, as text")
        return value

    def _port(self, table: dict[str, Any], key: str, where: str) -> int:
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
            raise self._wrong(f"{where}.{key}", "must be given: the port, a whole number")
        return value

    def _only(self, table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
        for key in table:
            if key not in known:
                name = f"{where}.{key}" if where else key
                raise self._wrong(name, f"is not known; there are {', '.join(known)}")

    def _wrong(self, where: str, what: str) -> CommandFileError:
        return CommandFileError(f"{self._path}: {where}: {what}")


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


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

    def kill_supervisor(self, process: str) -> None:
        """See `ClusterControl.kill_supervisor`."""
        self._do(process, "kill-supervisor")

    def pause_supervisor(self, process: str) -> None:
        """See `ClusterControl.pause_supervisor`."""
        self._do(process, "pause-supervisor")

    def resume_supervisor(self, process: str) -> None:
        """See `ClusterControl.resume_supervisor`."""
        self._do(process, "resume-supervisor")

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
            raise CannotError(f"{self._file.path} does not name the clients' host: clients_host")
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
