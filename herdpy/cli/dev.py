"""``herdpy dev``: a cluster on this machine, to try things and to break them.

The commands' signatures; ``dev_show`` does them over ``herdpy.dev`` and shows how it went. Nothing but typer
is imported before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from herdpy.cli.target import JsonOption

HELP = """Run a cluster on this machine: ZooKeeper, bookies and servers on free loopback ports.

It runs on when the command has ended, until `herdpy dev down`. Everything of it is in one directory: data,
configurations, logs and the state. No process is signalled that these commands did not start.

Needs Java 17, Maven (once, to fetch BookKeeper) and the server extra: pip install "herdpy\\[server]"
"""

Directory = Annotated[Path, typer.Option("--dir", "-d", metavar="D", help="The cluster's directory.")]
HERE = Path("herdpy-dev")
Name = Annotated[str, typer.Argument(metavar="NAME", help="zookeeper, bookie-1, server-1 ...")]


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
    from herdpy.cli import dev_show

    dev_show.up(
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
    from herdpy.cli import dev_show

    dev_show.status(directory, json=json)


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
    from herdpy.cli import dev_show

    dev_show.down(directory, wipe=wipe, json=json)


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
    from herdpy.cli import dev_show

    dev_show.one(directory, name, "started", lambda cluster: cluster.start(name, wait=wait), json=json)


def stop_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Stop one process in order (SIGTERM), as for an upgrade.

    \b
    Examples:
      herdpy dev stop server-1
    """
    from herdpy.cli import dev_show

    dev_show.one(directory, name, "stopped", lambda cluster: cluster.stop(name), json=json)


def kill_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Kill one process (SIGKILL), as a crash does.

    \b
    Examples:
      herdpy dev kill server-1
      herdpy dev kill bookie-2 --dir /tmp/c
    """
    from herdpy.cli import dev_show

    dev_show.one(directory, name, "killed", lambda cluster: cluster.kill(name), json=json)


def pause_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Freeze one process (SIGSTOP): its connections stay open, and nobody answers.

    \b
    Examples:
      herdpy dev pause server-1
    """
    from herdpy.cli import dev_show

    dev_show.one(directory, name, "paused", lambda cluster: cluster.pause(name), json=json)


def resume_command(name: Name, directory: Directory = HERE, json: JsonOption = False) -> None:
    """Let a paused process go on (SIGCONT).

    \b
    Examples:
      herdpy dev resume server-1
    """
    from herdpy.cli import dev_show

    dev_show.one(directory, name, "resumed", lambda cluster: cluster.resume(name), json=json)


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
