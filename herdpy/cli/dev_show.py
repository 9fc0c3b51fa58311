"""What ``herdpy dev`` does over ``herdpy.dev``, and how it shows a cluster."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from herdpy.cli.errors import USAGE, CliError, tell
from herdpy.cli.output import write_table
from herdpy.cli.signals import interruptible

if TYPE_CHECKING:
    from rich.status import Status

    from herdpy.dev import ClusterStatus, LocalCluster

_NOTHING = "-"


def up(
    directory: Path,
    *,
    servers: int | None,
    bookies: int | None,
    settings: Sequence[str],
    lines: Sequence[str],
    auto_recovery: bool,
    json: bool,
) -> None:
    """Start a cluster and show it."""
    values = _pairs("--set", settings), _pairs("--set-bookie", lines)
    with interruptible(), _errors(directory), _Progress("starting") as progress:
        cluster = _cluster(
            directory,
            servers=servers,
            bookies=bookies,
            server_settings=values[0],
            bookie_configuration=values[1],
            auto_recovery=auto_recovery,
            on_progress=progress.tell,
        )
        found = cluster.up()
    _show(found, json=json)


def status(directory: Path, *, json: bool) -> None:
    """Show a cluster."""
    with _errors(directory):
        found = _cluster(directory).status()
    _show(found, json=json)


def down(directory: Path, *, wipe: bool, json: bool) -> None:
    """Stop a cluster and say so."""
    with _errors(directory), _Progress("stopping") as progress:
        cluster = _cluster(directory, on_progress=progress.tell)
        cluster.down()
        found = cluster.status()
        if wipe:
            cluster.down(wipe=True)
    if json:
        _show(found, json=True)
    else:
        tell(f"The cluster in {directory} is stopped{', and its data removed' if wipe else ''}.")


def one(directory: Path, name: str, done: str, work: Callable[[LocalCluster], None], *, json: bool) -> None:
    """Do something to one process and say so."""
    with interruptible(), _errors(directory):
        cluster = _cluster(directory)
        work(cluster)
        if json:
            _show(cluster.status(), json=True)
        else:
            tell(f"{name} is {done}.")


def _cluster(directory: Path, **options: Any) -> LocalCluster:
    try:
        from herdpy.dev import LocalCluster
    except ImportError as error:
        raise CliError(str(error), hint='pip install "herdpy[server]" brings what is missing.') from error
    return LocalCluster(directory, detached=True, **options)


def _pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip()):
            raise CliError(f"{flag} {text}: write {flag} name=value", code=USAGE)
        pairs[name.strip()] = value
    return pairs


def _show(found: ClusterStatus, *, json: bool) -> None:
    if json:
        sys.stdout.write(jsonlib.dumps(found.to_dict(), indent=2) + "\n")
        return
    rows: list[tuple[object, ...]] = [
        (found.zookeeper.id, found.zookeeper.state, _NOTHING, _pid(found.zookeeper), found.zookeeper.port)
    ]
    rows += [(one.id, one.state, _NOTHING, _pid(one), one.port) for one in found.bookies]
    for one in found.servers:
        ports = f"{one.sql_port} (grpc {one.grpc_port}, http {one.http_port})"
        rows.append((one.id, one.state, one.role, _pid(one), ports))
    write_table(("name", "state", "role", "pid", "port"), [tuple(map(str, row)) for row in rows], sys.stdout)
    if found.url:
        sys.stdout.write(f"url: {found.url}\n")
    sys.stdout.write(f"BookKeeper: {found.bookkeeper_uri}\n")


def _pid(process: Any) -> object:
    return _NOTHING if process.pid is None else process.pid


@contextmanager
def _errors(directory: Path) -> Iterator[None]:
    """Failures in words that say what to do next."""
    try:
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError

        from herdpy.dev import BusyError, DevError, NoClusterError, UnknownNameError
        from herdpy.testing import KitError
    except ImportError as error:
        raise CliError(str(error), hint='pip install "herdpy[server]" brings what is missing.') from error
    try:
        yield
    except UnknownNameError as error:
        raise CliError(str(error), code=USAGE) from error
    except NoClusterError as error:
        raise CliError(str(error), hint=f"herdpy dev up --dir {directory} makes one.") from error
    except BusyError as error:
        raise CliError(str(error), hint="Wait until it has ended, or end it with Ctrl-C.") from error
    except (DevError, KitError) as error:
        raise CliError(str(error)) from error
    except (KazooException, KazooTimeoutError) as error:
        why = f"ZooKeeper does not answer: {error or type(error).__name__}"
        raise CliError(why, hint=f"herdpy dev status --dir {directory} says whether it runs.") from error


class _Progress:
    """What is going on, on a terminal: a line for what is ready, and what is waited for. Silent elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._under_way: list[str] = []
        self._began = time.perf_counter()
        self._status: Status | None = None

    def tell(self, name: str, event: str) -> None:
        """Something became of a process."""
        if event in ("starting", "stopping"):
            self._under_way.append(name)
        elif name in self._under_way:
            self._under_way.remove(name)
            if self._status is not None:
                seconds = time.perf_counter() - self._began
                self._status.console.print(f"{name} {event} ({seconds:.1f} s)", highlight=False)
        if self._status is not None:
            self._status.update(f"{self._what} {', '.join(self._under_way)}")

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(file=sys.stderr).status(f"{self._what} ...")
            self._status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._status is not None:
            self._status.stop()
