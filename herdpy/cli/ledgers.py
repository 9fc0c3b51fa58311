"""``herdpy ledgers``: look into a BookKeeper cluster's ledgers, and put them in order.

The commands' signatures; what they do is in ``ledgers_cluster`` (connecting, telling failures),
``ledgers_show`` (metadata for people) and ``ledgers_cat`` (entries for people). Nothing but typer is
imported before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from herdpy.cli.errors import USAGE, CliError
from herdpy.cli.target import JsonOption

HELP = """Look into a BookKeeper cluster's ledgers: list, show, read, recover, delete, go on without.

The cluster is named by its ZooKeeper: --cluster, or the variable HERDPY_CLUSTER.

Needs the bookkeeper extra: pip install "herdpy\\[bookkeeper]"
"""

Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        envvar="HERDPY_CLUSTER",
        metavar="URI",
        help="zk://host:port[,host:port]/ledgers",
    ),
]
LOCAL = "zk://127.0.0.1:2181/ledgers"
LedgerId = Annotated[int, typer.Argument(metavar="LEDGER", min=0, help="The ledger's id.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="The ledger's password; else the metadata's own."),
]


def ls_command(cluster: Cluster = LOCAL, json: JsonOption = False) -> None:
    """List the ledgers: state, entries and bytes (known once closed), quorums, digest, when made.

    \b
    Examples:
      herdpy ledgers ls
      herdpy ledgers ls --cluster zk://zoo1:2181,zoo2:2181/ledgers
      herdpy ledgers ls --json
    """
    from herdpy.cli import ledgers_show

    ledgers_show.ls(cluster, json=json)


def show_command(ledger: LedgerId, cluster: Cluster = LOCAL, json: JsonOption = False) -> None:
    """Show a ledger's metadata: state, quorums, which bookies hold which entries, custom metadata.

    The password that stands in the metadata is not shown.

    \b
    Examples:
      herdpy ledgers show 7
      herdpy ledgers show 7 --json
    """
    from herdpy.cli import ledgers_show

    ledgers_show.show(cluster, ledger, json=json)


def cat_command(
    ledger: LedgerId,
    cluster: Cluster = LOCAL,
    first: Annotated[int, typer.Option("--from", metavar="N", min=0, help="The first entry.")] = 0,
    last: Annotated[int | None, typer.Option("--to", metavar="N", min=0, help="The last entry.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the ledger is closed.")] = False,
    hex: Annotated[bool, typer.Option("--hex", help="A hex dump of each entry.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes as they are, nothing between.")] = False,
    herdpy: Annotated[bool, typer.Option("--herdpy", help="Decode entries of HerdPy's own log.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each entry.")] = False,
    password_file: PasswordFile = None,
) -> None:
    """Print a ledger's entries, in order: as text, or in another form.

    An open ledger is read up to its last add confirmed, and stays open. Nothing is fenced.

    \b
    Examples:
      herdpy ledgers cat 7
      herdpy ledgers cat 7 --from 100 --to 109 --hex
      herdpy ledgers cat 7 --raw > entries.bin
      herdpy ledgers cat 7 --follow --json
      herdpy ledgers cat 7 --herdpy
    """
    from herdpy.cli import ledgers_cat

    if hex + raw + herdpy + json > 1:
        raise CliError("--hex, --raw, --herdpy and --json exclude each other", code=USAGE)
    if last is not None and (follow or last < first):
        why = "--follow has no end" if follow else f"--to {last} comes before --from {first}"
        raise CliError(f"--to does not fit: {why}", code=USAGE)
    form = "hex" if hex else "raw" if raw else "herdpy" if herdpy else "json" if json else "text"
    ledgers_cat.cat(cluster, ledger, first, last, follow=follow, form=form, password_file=password_file)


def recover_command(
    ledger: LedgerId,
    cluster: Cluster = LOCAL,
    password_file: PasswordFile = None,
    accept_loss: Annotated[
        bool,
        typer.Option(help="Also when bookies that lost their disks leave open what it had; that is lost."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
) -> None:
    """Take an open ledger from its writer and close it: fence it, find its end, make that final.

    Every entry that was acknowledged stays, as far as bookies have it. A writer that is still there fails
    from now on. A closed ledger is left as it is.

    \b
    Examples:
      herdpy ledgers recover 7
      herdpy ledgers recover 7 --accept-loss
      herdpy ledgers recover 7 --yes --json
    """
    from herdpy.cli import ledgers_change

    ledgers_change.recover(
        cluster, ledger, password_file=password_file, accept_loss=accept_loss, yes=yes, json=json
    )


def keep_replica_command(
    tablespace: Annotated[str, typer.Argument(metavar="TABLESPACE", help="The tablespace.")],
    node: Annotated[str, typer.Argument(metavar="NODE", help="The server whose replica is kept.")],
    cluster: Cluster = LOCAL,
    root: Annotated[str, typer.Option(metavar="ZNODE", help="The servers' cluster.root.")] = "/herdpy",
    accept_loss: Annotated[
        bool,
        typer.Option(help="Also when the log, or another replica, has or may have more; that is lost."),
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="S", min=1, help="How long it may take.")] = 60.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
) -> None:
    """Have a tablespace that nobody leads go on from what one replica has, when bookies have lost the log.

    That replica leads, with a new ledger after its last entry. Others that have no more get its state; one
    that has more is kept as it is, ahead of the log. Refused while somebody leads, and when the log has, or
    may have, transactions that the replica lacks. Needs the server extra.

    \b
    Examples:
      herdpy ledgers keep-replica herdpy server-2
      herdpy ledgers keep-replica sales db1 --cluster zk://zoo1:2181,zoo2:2181/ledgers --yes --json
      herdpy ledgers keep-replica herdpy server-2 --accept-loss
    """
    from herdpy.cli import ledgers_keep

    ledgers_keep.keep_replica(
        cluster, root, tablespace, node, accept_loss=accept_loss, timeout_s=timeout, yes=yes, json=json
    )


def copies_command(
    ledgers: Annotated[
        list[int] | None, typer.Argument(metavar="LEDGER...", min=0, help="All, if none.")
    ] = None,
    cluster: Cluster = LOCAL,
    json: JsonOption = False,
) -> None:
    """Read every copy of every entry, and tell which are missing: how safe the log is after a loss.

    Ledgers that are open are left out: another leader closes that of a tablespace. The exit code is 1 when a
    copy is missing.

    \b
    Examples:
      herdpy ledgers copies
      herdpy ledgers copies 7 8 --json
    """
    from herdpy.cli import ledgers_copies

    ledgers_copies.copies(cluster, ledgers or [], json=json)


def rm_command(
    ledgers: Annotated[list[int], typer.Argument(metavar="LEDGER...", min=0, help="Their ids.")],
    cluster: Cluster = LOCAL,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete ledgers for good, whatever their state. Bookies free the space some minutes later.

    \b
    Examples:
      herdpy ledgers rm 7
      herdpy ledgers rm 7 8 9 --yes
    """
    from herdpy.cli import ledgers_change

    ledgers_change.rm(cluster, ledgers, yes=yes, json=json)


def bookies_command(cluster: Cluster = LOCAL, json: JsonOption = False) -> None:
    """List the bookies: where each is, whether it takes new entries, and the space on its disks.

    The exit code is 1 when one that is registered does not answer.

    \b
    Examples:
      herdpy ledgers bookies
      herdpy ledgers bookies --json
    """
    from herdpy.cli import ledgers_show

    ledgers_show.bookies(cluster, json=json)


COMMANDS: tuple[tuple[str, Callable[..., None]], ...] = (
    ("ls", ls_command),
    ("show", show_command),
    ("cat", cat_command),
    ("recover", recover_command),
    ("keep-replica", keep_replica_command),
    ("copies", copies_command),
    ("rm", rm_command),
    ("bookies", bookies_command),
)
