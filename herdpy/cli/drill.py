"""``herdpy drill``: faults on purpose, and a judgement of what clients saw meanwhile.

The commands' signatures; ``drill_show`` does them over ``herdpy.drill`` and shows how it went. Nothing but
typer is imported before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from herdpy.cli.target import JsonOption, spelled_out

if TYPE_CHECKING:
    from typer._click import Command

HELP = "\n\n".join(
    (
        "Harm a cluster on purpose, and judge what its clients were told: failover drills.",
        "Clients of all kinds write and read while a fault is made; every operation is recorded, and the"
        " history is judged: registers are linearizable, nothing acknowledged is lost, nothing happens twice,"
        " all replicas are equal at the end.",
        "Without --url a drill makes a cluster of its own on this machine, and removes it (needs Java 17,"
        " Maven once, and the server extra). `herdpy drill list` tells which drills there are.",
        "Exit codes: 0 every promise was kept; 1 one was not, or it could not be decided; 2 wrong usage;"
        " 3 the drill shows nothing: its fault cannot be made here, or it could not be carried out.",
    )
)

NAME = "NAME"

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="A cluster of yours; it needs --commands, too."),
]
Profile = Annotated[str | None, typer.Option("--profile", metavar="NAME", help="The same as --url @NAME.")]
Commands = Annotated[
    Path | None,
    typer.Option(
        "--commands",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="How to kill, pause and cut each process there (TOML).",
    ),
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", min=1.0, metavar="N", help="How long clients run.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, metavar="S", help="What clients and faults decide; told again.")
]
Clients = Annotated[
    int | None, typer.Option("--clients", min=1, max=200, metavar="N", help="Clients of each workload.")
]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0.1, metavar="N", help="Operations a second of each client.")
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write the report as JSON, too.")
]
PictureFile = Annotated[Path | None, typer.Option("--picture", metavar="FILE", help="Draw it (SVG).")]
HistoryFile = Annotated[
    Path | None, typer.Option("--history", metavar="FILE", help="Keep every operation (JSON lines).")
]


class DrillGroup(TyperGroup):
    """The group takes the name of any drill for a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """What is no command, and no option, is the NAME of the command of that name."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "", self.commands[NAME], args
        return super().resolve_command(ctx, args)


def run_command(
    name: Annotated[str, typer.Argument(metavar=NAME, help="Which drill: see herdpy drill list.")],
    url: Url = None,
    profile: Profile = None,
    seconds: Seconds = None,
    seed: Seed = None,
    commands: Commands = None,
    clients: Clients = None,
    rate: Rate = None,
    report: ReportFile = None,
    picture: PictureFile = None,
    history: HistoryFile = None,
    json: JsonOption = False,
) -> None:
    """Run the drill of that name.

    The report goes to standard output. When a promise was broken it ends with the smallest history that shows
    it and the command that does the same again, and the whole history is kept in a file.

    \b
    Examples:
      herdpy drill kill-leader
      herdpy drill pause-leader --seconds 20 --picture pause.svg --report pause.json
      herdpy drill storm --seed 17
      herdpy drill kill-bookie --url herdpy://db1,db2,db3/herdpy --commands cluster.toml
    """
    from herdpy.cli import drill_run, drill_show

    wanted = drill_run.DrillOptions(spelled_out(url, profile), commands, seconds, seed, clients, rate)
    drill_show.run(name, wanted, drill_run.DrillFiles(report, picture, history), json=json)


def list_command(json: JsonOption = False) -> None:
    """Show which drills there are, and what each does.

    \b
    Examples:
      herdpy drill list
      herdpy drill list --json
    """
    from herdpy.cli import drill_show

    drill_show.show_list(json=json)


def all_command(
    url: Url = None,
    profile: Profile = None,
    seconds: Seconds = None,
    seed: Seed = None,
    commands: Commands = None,
    clients: Clients = None,
    rate: Rate = None,
    report: ReportFile = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", metavar="DIR", help="A picture of each drill in it.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run every drill, one after the other, and sum them up; those that cannot be made here are told.

    A line for each goes to standard output when it has ended. The histories of those that broke a promise are
    kept, as by the drill alone. --report writes one document with all reports.

    \b
    Examples:
      herdpy drill all
      herdpy drill all --seconds 15 --pictures drills/ --report drills.json
      herdpy drill all --url herdpy://db1,db2,db3/herdpy --commands cluster.toml
    """
    from herdpy.cli import drill_run, drill_show

    wanted = drill_run.DrillOptions(spelled_out(url, profile), commands, seconds, seed, clients, rate)
    drill_show.run_all(wanted, report, pictures, json=json)


def judge_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="HISTORY", exists=True, dir_okay=False, help="A file that --history has written."
        ),
    ],
    report: ReportFile = None,
    picture: PictureFile = None,
    json: JsonOption = False,
) -> None:
    """Judge a history again, from its file: with another version, or to draw it.

    What was seen of the cluster itself (rests in ZooKeeper and bookies) is not in a history, and not judged.

    \b
    Examples:
      herdpy drill judge pause-leader-17.jsonl
      herdpy drill judge pause-leader-17.jsonl --picture pause-leader-17.svg
    """
    from herdpy.cli import drill_run, drill_show

    drill_show.judge(file, drill_run.DrillFiles(report, picture, None), json=json)


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    (NAME, run_command),
    ("list", list_command),
    ("all", all_command),
    ("judge", judge_command),
)
