"""``herdpy top``: servers watched in a terminal. The command; ``herdpy.top`` does the work."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from herdpy.cli import target
from herdpy.cli.errors import USAGE, CliError, without_package
from herdpy.cli.output import write_document, write_table
from herdpy.cli.status import servers_of
from herdpy.cli.target import JsonOption, Place

if TYPE_CHECKING:
    from herdpy.top.monitor import Monitor
    from herdpy.top.sample import Rates, ServerSample

_LEAST_INTERVAL_S = 0.1
_MOST_INTERVAL_S = 3600.0


def top_command(
    url: Place,
    interval: Annotated[float, typer.Option("--interval", metavar="S", help="Seconds between looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print tables once, and end.")] = False,
    json: JsonOption = False,
) -> None:
    """Watch a server: sessions, waits for locks, statements, replicas and rates.

    It shows what the role may see by SQL. When the server goes, it goes on at another host of the URL. Keys:
    1 to 4 panes, c cancels a session's statement, t terminates a session, s and r sort, / filters, p pauses,
    n goes to the next server, q quits. --once and --json look twice, --interval apart: rates are between two
    looks.

    \b
    Examples:
      herdpy top herdpy://db1,db2,db3/herdpy
      herdpy top herdpy://db1/herdpy --once
      herdpy top @flights --json --interval 10
    """
    if not _LEAST_INTERVAL_S <= interval <= _MOST_INTERVAL_S:
        raise CliError(
            f"--interval is from {_LEAST_INTERVAL_S} to {_MOST_INTERVAL_S:.0f} seconds", code=USAGE
        )
    place = target.existing(url, servers=True)
    options = servers_of(place.url)
    try:
        from herdpy.top.monitor import Monitor

        monitor = Monitor(options)
        if once or json:
            sample, found = asyncio.run(_look(monitor, interval))
            _print(sample, found, as_json=json)
            return
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CliError("this is no terminal", hint="--once prints tables, --json a document.", code=USAGE)
        from herdpy.top.screen import TopScreen
    except ModuleNotFoundError as error:
        raise without_package(error, "top") or error from error
    TopScreen(monitor, interval).run()


async def _look(monitor: Monitor, interval_s: float) -> tuple[ServerSample, Rates]:
    """A sample, and the rates since one before it."""
    from herdpy.top.monitor import LostServerError, ServerRefusedError
    from herdpy.top.sample import rates

    try:
        before = await monitor.sample()
        await asyncio.sleep(interval_s)
        sample = await monitor.sample()
    except (LostServerError, ServerRefusedError) as error:
        raise CliError(str(error)) from error
    finally:
        await monitor.close()
    return sample, rates(before, sample)


def _print(sample: ServerSample, found: Rates, *, as_json: bool) -> None:
    from herdpy.top import view

    tree = view.waits(sample)
    if as_json:
        write_document(view.document(sample, found, tree))
        return
    sys.stdout.write(view.head_line(sample, found) + "\n")
    for pane in view.PANES:
        shown = view.lines(pane, sample.parts[pane.part])
        if shown or pane.part in sample.notes:
            sys.stdout.write(f"\n{pane.title}\n")
        if shown:
            titles = [column.title for column in pane.columns]
            numeric = [column.is_number for column in pane.columns]
            write_table(titles, [line.cells for line in shown], sys.stdout, numeric=numeric)
        if pane.part in sample.notes:
            sys.stdout.write(f"{view.printable(sample.notes[pane.part])}\n")
    if tree:
        sys.stdout.write("\nWho waits for whom\n")
        sys.stdout.writelines(f"{'  ' * line.depth}{text}\n" for line, text in tree)
