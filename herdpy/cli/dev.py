"""``herdpy dev``: a cluster on this machine, to try things and to break them.

The commands' signatures first, then what they do over ``herdpy.dev`` and how they show a cluster.
``herdpy.dev`` is imported when a command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from herdpy.cli.errors import USAGE, CliError, interruptible, print_note, without_package
from herdpy.cli.extras import in_help
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.target import JsonOption
from herdpy.distribution import install_line

if TYPE_CHECKING:
    from herdpy.dev import ClusterStatus, LocalCluster


HELP = f"""Run a cluster on this machine: ZooKeeper, bookies and servers on free loopback ports.

It runs on when the command has ended, until `herdpy dev down`. Everything of it is in one directory: data,
configurations, logs and the state. No process is signalled that these commands did not start.

Needs Java 17, Maven (once, to fetch BookKeeper) and the server extra: {in_help(install_line("server"))}
"""

Directory = Annotated[Path, typer.Option("--dir", "-d", metavar="D", help="The cluster's directory.")]
HERE = Path("herdpy-dev")
Name = Annotated[str, typer.Argument(metavar="NAME", help="zookeeper, bookie-1, server-1 ...")]
_NOTHING = "-"


def up_command(
    directory: Directory = HERE,
    servers: Annotated[
        int | None, typer.Option(min=0, max=50, help="HerdPy servers; as many as there are, or 3.")
    ] = None,
    bookies: Annotated[
        int | None, typer.Option(min=0, max=50, help="Bookies; as many as there are, or 3.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.NAME=VALUE", help="A setting of every server."),
    ] = None,
    set_bookie: Annotated[
        list[str] | None,
        typer.Option("--set-bookie", metavar="NAME=VALUE", help="A line of every bookie's configuration."),
    ] = None,
    auto_recovery: Annotated[
        bool, typer.Option("--auto-recovery", help="BookKeeper's daemon of that name, too.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Start a cluster, or what of it does not run; it comes back with the ports and the data it had.

    More servers or bookies than before are added. What is given with --set and --set-bookie stays with the
    cluster, and holds from the next start of a process on. When something does not start, or Ctrl-C ends the
    command, what it has started is stopped.

    \b
    Examples:
      herdpy dev up
      herdpy dev up --dir /tmp/c --servers 3 --bookies 3 --json
      herdpy dev up --dir /tmp/c --servers 4
      herdpy dev up --dir /tmp/c --set logging.level=debug
      herdpy dev up --dir /tmp/c --bookies 4 --auto-recovery
    """
    up(
        directory,
        servers=servers,
        bookies=bookies,
        settings=set_ or (),
        lines=set_bookie or (),
        auto_recovery=auto_recovery,
        json=json,
    )


def status_command(directory: Directory = HERE, json: JsonOption = False) -> None:
    """Show what runs, where it listens, and each server's role in the default tablespace.

    \b
    Examples:
      herdpy dev status
      herdpy dev status --dir /tmp/c --json
    """
    status(directory, json=json)


def down_command(
    directory: Directory = HERE,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove its data and logs, too.")] = False,
    json: JsonOption = False,
) -> None:
    """Stop the cluster: servers first, ZooKeeper last. Its data stays, unless --wipe is given.

    \b
    Examples:
      herdpy dev down
      herdpy dev down --dir /tmp/c --wipe
    """
    down(directory, wipe=wipe, json=json)


def start_command(
    name: Name,
    directory: Directory = HERE,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it serves.")] = True,
    json: JsonOption = False,
) -> None:
    """Start one process, on the port and with the data it had.

    \b
    Examples:
      herdpy dev start bookie-1
      herdpy dev start server-2 --dir /tmp/c
    """
    one(directory, name, "started", lambda cluster: cluster.start(name, wait=wait), json=json)


def stop_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Stop one process in order (SIGTERM), as for an upgrade.

    \b
    Examples:
      herdpy dev stop server-1
    """
    one(directory, name, "stopped", lambda cluster: cluster.stop(name), json=json)


def kill_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Kill one process (SIGKILL), as a crash does.

    \b
    Examples:
      herdpy dev kill server-1
      herdpy dev kill bookie-2 --dir /tmp/c
    """
    one(directory, name, "killed", lambda cluster: cluster.kill(name), json=json)


def pause_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Freeze one process (SIGSTOP): its connections stay open, and nobody answers.

    \b
    Examples:
      herdpy dev pause server-1
    """
    one(directory, name, "paused", lambda cluster: cluster.pause(name), json=json)


def resume_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Let a paused process go on (SIGCONT).

    \b
    Examples:
      herdpy dev resume server-1
    """
    one(directory, name, "resumed", lambda cluster: cluster.resume(name), json=json)


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("up", up_command),
    ("status", status_command),
    ("down", down_command),
    ("start", start_command),
    ("stop", stop_command),
    ("kill", kill_command),
    ("pause", pause_command),
    ("resume", resume_command),
)


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
    with interruptible(), _errors(directory), _ProcessBar("starting") as bar:
        cluster = _cluster(
            directory,
            servers=servers,
            bookies=bookies,
            server_settings=values[0],
            bookie_configuration=values[1],
            auto_recovery=auto_recovery,
            on_progress=bar.show_event,
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
    with _errors(directory), _ProcessBar("stopping") as bar:
        cluster = _cluster(directory, on_progress=bar.show_event)
        cluster.down()
        found = cluster.status()
        if wipe:
            cluster.down(wipe=True)
    if json:
        _show(found, json=True)
    else:
        print_note(f"The cluster in {directory} is stopped{', and its data removed' if wipe else ''}.")


def one(directory: Path, name: str, done: str, work: Callable[[LocalCluster], None], *, json: bool) -> None:
    """Do something to one process and say so."""
    with interruptible(), _errors(directory):
        cluster = _cluster(directory)
        work(cluster)
        if json:
            _show(cluster.status(), json=True)
        else:
            print_note(f"{name} is {done}.")


def _cluster(directory: Path, **options: Any) -> LocalCluster:
    try:
        from herdpy.dev import LocalCluster
    except ImportError as error:
        raise without_package(error, "server") or error from error
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
        write_document(found.to_dict())
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
        raise without_package(error, "server") or error from error
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
        raise CliError(why, hint=f"herdpy dev status --dir {directory} shows whether it runs.") from error


class _ProcessBar(Bar):
    """A bar for processes that start or end: those under way, and a line for each that is ready."""

    def __init__(self, what: str) -> None:
        super().__init__(what, transient=True)
        self._under_way: list[str] = []

    def show_event(self, name: str, event: str) -> None:
        """Something became of a process."""
        if event in ("starting", "stopping"):
            self._under_way.append(name)
        elif name in self._under_way:
            self._under_way.remove(name)
            self.note(f"{name} {event} ({self.seconds:.1f} s)")
        self.show(0, None, ", ".join(self._under_way))
