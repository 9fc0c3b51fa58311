"""``herdpy ledgers``: look into a BookKeeper cluster's ledgers, and put them in order.

The commands' signatures first, then the connection to the cluster, whose failures say what to do
next, then what each command does. What changes a ledger asks first. The BookKeeper client is
imported when a command runs.

``keep-replica`` is an operator's word to a tablespace that nobody can lead. It is written to ZooKeeper, where
the replica that it names looks for it (``herdpy_server.replica.evidence``), and gone when that replica leads.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from herdpy.cli.errors import FAILED, USAGE, CliError, print_note, without_package
from herdpy.cli.extras import in_help, needed
from herdpy.cli.output import Bar, write_document, write_table
from herdpy.cli.target import JsonOption
from herdpy.distribution import install_line

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookieInfo, BookKeeper, Entry, LedgerMetadata, LedgerReader
    from herdpy.log.entry import TransactionAssembler


HELP = f"""Look into a BookKeeper cluster's ledgers: list, show, read, recover, delete, go on without.

The cluster is named by its ZooKeeper: --cluster, or the variable HERDPY_CLUSTER.

Needs the bookkeeper extra: {in_help(install_line("bookkeeper"))}
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
T = TypeVar("T")
_ZOOKEEPER_TIMEOUT_S = 5.0
_AT_ONCE = 64
_BRIEF = (
    "ledger",
    "state",
    "entries",
    "bytes",
    "ensemble_size",
    "write_quorum",
    "ack_quorum",
    "digest",
    "segments",
    "created",
    "problem",
)
_LOOK_S = 0.2
_HEX_LINE = 16


def ls_command(cluster: Cluster = LOCAL, json: JsonOption = False) -> None:
    """List the ledgers: state, entries and bytes (known once closed), quorums, digest, when made.

    \b
    Examples:
      herdpy ledgers ls
      herdpy ledgers ls --cluster zk://zoo1:2181,zoo2:2181/ledgers
      herdpy ledgers ls --json
    """
    ls(cluster, json=json)


def show_command(ledger: LedgerId, cluster: Cluster = LOCAL, json: JsonOption = False) -> None:
    """Show a ledger's metadata: state, quorums, which bookies hold which entries, custom metadata.

    The password that stands in the metadata is not shown.

    \b
    Examples:
      herdpy ledgers show 7
      herdpy ledgers show 7 --json
    """
    show(cluster, ledger, json=json)


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
    if hex + raw + herdpy + json > 1:
        raise CliError("--hex, --raw, --herdpy and --json exclude each other", code=USAGE)
    if last is not None and (follow or last < first):
        why = "--follow has no end" if follow else f"--to {last} comes before --from {first}"
        raise CliError(f"--to does not fit: {why}", code=USAGE)
    form = "hex" if hex else "raw" if raw else "herdpy" if herdpy else "json" if json else "text"
    cat(cluster, ledger, first, last, follow=follow, form=form, password_file=password_file)


def recover_command(
    ledger: LedgerId,
    cluster: Cluster = LOCAL,
    password_file: PasswordFile = None,
    accept_loss: Annotated[
        bool,
        typer.Option(help="Also when bookies that lost their disks leave open what it had; that is lost."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
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
    recover(cluster, ledger, password_file=password_file, accept_loss=accept_loss, yes=yes, json=json)


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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
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
    keep_replica(
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
    copies(cluster, ledgers or [], json=json)


def rm_command(
    ledgers: Annotated[list[int], typer.Argument(metavar="LEDGER...", min=0, help="Their ids.")],
    cluster: Cluster = LOCAL,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Delete ledgers for good, whatever their state. Bookies free the space some minutes later.

    \b
    Examples:
      herdpy ledgers rm 7
      herdpy ledgers rm 7 8 9 --yes
    """
    rm(cluster, ledgers, yes=yes, json=json)


def bookies_command(cluster: Cluster = LOCAL, json: JsonOption = False) -> None:
    """List the bookies: where each is, whether it takes new entries, and the space on its disks.

    The exit code is 1 when one that is registered does not answer.

    \b
    Examples:
      herdpy ledgers bookies
      herdpy ledgers bookies --json
    """
    bookies(cluster, json=json)


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


def with_cluster(uri: str, work: Callable[[BookKeeper], Awaitable[T]]) -> T:
    """Open the cluster, do the work, close it; CliError when anything of that fails."""
    try:
        from herdpy.bookkeeper import BookKeeper, ClientSettings, errors
    except ImportError as error:
        raise without_package(error, "bookkeeper") or error from error

    async def run() -> T:
        async with client as bk:
            return await work(bk)

    # kazoo tells of every attempt to connect; here the last word is enough.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    try:
        client = BookKeeper(uri, settings=ClientSettings(zookeeper_timeout_s=_ZOOKEEPER_TIMEOUT_S))
    except ImportError as error:
        raise without_package(error, "bookkeeper") or error from error
    except ValueError as error:
        raise CliError(str(error), code=USAGE) from error
    try:
        return asyncio.run(run())
    except errors.BookKeeperError as error:
        raise CliError(str(error), hint=_hint(error, uri)) from error


def _hint(error: Exception, uri: str) -> str | None:
    from herdpy.bookkeeper import errors

    hints: list[tuple[type[errors.BookKeeperError], str]] = [
        (errors.NoSuchLedgerError, f"herdpy ledgers ls --cluster {uri} lists what is there."),
        (errors.WrongPasswordError, "Leave --password-file out to take the password from the metadata."),
        (errors.UnknownLayoutError, "Is the path behind the servers right? BookKeeper's is mostly /ledgers."),
        (errors.ZooKeeperUnavailableError, "Name the cluster with --cluster or HERDPY_CLUSTER."),
        (errors.RecoveryError, f"herdpy ledgers bookies --cluster {uri} shows which bookies are missing."),
        (errors.BookieUnavailableError, f"herdpy ledgers bookies --cluster {uri} shows which are up."),
    ]
    return next((hint for kind, hint in hints if isinstance(error, kind)), None)


def password_of(metadata: LedgerMetadata, password_file: Path | None) -> bytes:
    """What a file says (a line end behind it is not meant), or what stands in the metadata in the clear."""
    if password_file is None:
        return metadata.password
    return password_file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")


def ls(uri: str, *, json: bool) -> None:
    """List the ledgers; one whose metadata cannot be read has its problem beside it, and the exit code 1."""
    listed = with_cluster(uri, _list)
    if json:
        write_document(listed)
    elif not listed:
        print_note("There are no ledgers.")
    else:
        names = ["Ledger", "State", "Entries", "Bytes", "E/W/A", "Digest", "Segments", "Created", "Problem"]
        rows: list[tuple[object, ...]] = [
            (
                one["ledger"],
                one["state"],
                one["entries"],
                one["bytes"],
                one["state"] and f"{one['ensemble_size']}/{one['write_quorum']}/{one['ack_quorum']}",
                one["digest"],
                one["segments"],
                one["created"],
                one["problem"],
            )
            for one in listed
        ]
        if not any(row[-1] for row in rows):
            names.pop()
            rows = [row[:-1] for row in rows]
        write_table(names, rows, sys.stdout)
    if any(one["problem"] for one in listed):
        raise typer.Exit(FAILED)


async def _list(bk: BookKeeper) -> list[dict[str, Any]]:
    from herdpy.bookkeeper.errors import MetadataError, NoSuchLedgerError

    async def one(ledger_id: int) -> dict[str, Any] | None:
        try:
            return _brief(ledger_id, await bk.ledger_metadata(ledger_id))
        except NoSuchLedgerError:
            return None  # deleted since it was listed
        except MetadataError as error:
            return {**dict.fromkeys(_BRIEF), "ledger": ledger_id, "problem": str(error)}

    ids = await bk.list_ledgers()
    found: list[dict[str, Any]] = []
    with Bar("reading metadata", "ledgers") as bar:
        for start in range(0, len(ids), _AT_ONCE):
            part = await asyncio.gather(*map(one, ids[start : start + _AT_ONCE]))
            found += [row for row in part if row is not None]
            bar.update(start + len(part), len(ids), start + len(part))
    return found


def _brief(ledger_id: int, metadata: LedgerMetadata) -> dict[str, Any]:
    closed = metadata.is_closed
    values = (
        ledger_id,
        metadata.state.name.lower().replace("_", " "),
        metadata.last_entry_id + 1 if closed else None,
        metadata.length_bytes if closed else None,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        metadata.digest.name,
        len(metadata.segments),
        _time(metadata.ctime_ms),
        None,
    )
    return dict(zip(_BRIEF, values, strict=True))


def show(uri: str, ledger_id: int, *, json: bool) -> None:
    """Show all of a ledger's metadata but its password."""
    metadata = with_cluster(uri, lambda bk: bk.ledger_metadata(ledger_id))
    facts = facts_of(ledger_id, metadata)
    if json:
        write_document(facts)
        return
    whole = [
        (name.replace("_", " "), value)
        for name, value in facts.items()
        if name not in ("segments", "custom_metadata")
    ]
    write_table(["Ledger", str(ledger_id)], whole[1:], sys.stdout, numeric=[False, False])
    rows = [
        (one["first_entry"], "to the end" if one["last_entry"] is None else one["last_entry"], member)
        for one in facts["segments"]
        for member in [", ".join(one["bookies"])]
    ]
    write_table(["First entry", "Last entry", "Bookies"], rows, sys.stdout, numeric=[True, True, False])
    if facts["custom_metadata"]:
        custom = [(name, value["text"] or value["hex"]) for name, value in facts["custom_metadata"].items()]
        write_table(["Custom metadata", "Value"], custom, sys.stdout, numeric=[False, False])


def facts_of(ledger_id: int, metadata: LedgerMetadata) -> dict[str, Any]:
    """A ledger's metadata as JSON has it; no password."""
    facts = {name: value for name, value in _brief(ledger_id, metadata).items() if name != "problem"}
    ends: list[int | None] = [one.first_entry_id - 1 for one in metadata.segments[1:]]
    closed = metadata.is_closed
    ends.append(metadata.last_entry_id if closed else None)
    facts["segments"] = [
        {"first_entry": one.first_entry_id, "last_entry": end, "bookies": list(one.members)}
        for one, end in zip(metadata.segments, ends, strict=True)
    ]
    facts["has_password"] = bool(metadata.password)
    facts["metadata_version"] = metadata.format_version
    facts["custom_metadata"] = {
        name: {"text": _text(value), "hex": value.hex()} for name, value in metadata.custom_metadata.items()
    }
    return facts


def bookies(uri: str, *, json: bool) -> None:
    """List the bookies."""

    async def ask(bk: BookKeeper) -> list[BookieInfo]:
        return await bk.bookies()

    found = with_cluster(uri, ask)
    if json:
        listed = [
            {
                "bookie": one.id,
                "state": one.state.value,
                "host": one.host,
                "port": one.port,
                "total_bytes": one.total_bytes,
                "free_bytes": one.free_bytes,
                "problem": one.problem,
            }
            for one in found
        ]
        write_document(listed)
    elif not found:
        print_note("No bookie is or was registered.")
    else:
        names = ["Bookie", "State", "Address", "Total bytes", "Free bytes", "Problem"]
        rows: list[tuple[object, ...]] = [
            (
                one.id,
                one.state.value,
                f"{one.host}:{one.port}" if one.host else None,
                one.total_bytes,
                one.free_bytes,
                one.problem,
            )
            for one in found
        ]
        if not any(one.problem for one in found):
            names.pop()
            rows = [row[:-1] for row in rows]
        write_table(names, rows, sys.stdout)
    if any(one.problem for one in found):
        raise typer.Exit(FAILED)


def _text(value: bytes) -> str | None:
    """The text that the bytes are, if they are text for people."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")


def recover(
    uri: str, ledger_id: int, *, password_file: Path | None, accept_loss: bool, yes: bool, json: bool
) -> None:
    """Recover one ledger and say where it ends."""
    before = with_cluster(uri, lambda bk: bk.ledger_metadata(ledger_id))
    was_closed = before.is_closed
    if not was_closed:
        confirm(f"Ledger {ledger_id} is open. Take it from its writer and close it?", yes=yes)

    async def work(bk: BookKeeper) -> dict[str, Any]:
        with Bar(f"recovering ledger {ledger_id}", "ledgers") as bar:
            bar.update(0, None, 0)
            password = password_of(before, password_file)
            reader = await bk.open_ledger(ledger_id, password, recover=True, accept_loss=accept_loss)
        facts = {
            "ledger": ledger_id,
            "was_closed": was_closed,
            "last_entry": reader.last_add_confirmed,
            "bytes": reader.length_bytes,
        }
        await reader.close()
        return facts

    done = with_cluster(uri, work)
    if json:
        sys.stdout.write(jsonlib.dumps(done) + "\n")
    else:
        how = "was closed already" if was_closed else "is now closed"
        print_note(f"Ledger {ledger_id} {how}: {done['last_entry'] + 1:,} entries, {done['bytes']:,} bytes.")


def rm(uri: str, ledger_ids: Sequence[int], *, yes: bool, json: bool) -> None:
    """Delete ledgers; the exit code is 1 when one was not there."""
    wanted = sorted(set(ledger_ids))
    named = f"ledger {wanted[0]}" if len(wanted) == 1 else f"{len(wanted)} ledgers"
    confirm(f"Delete {named} of {uri} for good?", yes=yes)

    async def work(bk: BookKeeper) -> tuple[list[int], list[int]]:
        from herdpy.bookkeeper.errors import NoSuchLedgerError

        deleted: list[int] = []
        missing: list[int] = []
        with Bar("deleting", "ledgers") as bar:
            for number, ledger_id in enumerate(wanted, 1):
                try:
                    await bk.delete_ledger(ledger_id)
                    deleted.append(ledger_id)
                except NoSuchLedgerError:
                    missing.append(ledger_id)
                bar.update(number, len(wanted), number)
        return deleted, missing

    deleted, missing = with_cluster(uri, work)
    if json:
        sys.stdout.write(jsonlib.dumps({"deleted": deleted, "missing": missing}) + "\n")
    else:
        print_note(f"Deleted: {', '.join(map(str, deleted)) or 'none'}.")
        if missing:
            print_note(f"Not there: {', '.join(map(str, missing))}.")
    if missing:
        raise typer.Exit(FAILED)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is changed; CliError when the answer is no, or there is none."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        hint = "Give --yes to go on."
        raise CliError("no server answered, nothing was changed", hint=hint, code=USAGE) from None
    if not agreed:
        raise CliError("nothing was changed")


def copies(uri: str, ledger_ids: Sequence[int], *, json: bool) -> None:
    """Look at ledgers (all, if none is named); the exit code is 1 when a copy is missing."""

    async def work(bk: BookKeeper) -> list[dict[str, Any]]:
        return await _look(bk, ledger_ids)

    found = with_cluster(uri, work)
    missing = [one for one in found if one["missing"]]
    if json:
        write_document(found)
    else:
        for one in found:
            if one["state"] != "closed":
                print_note(f"Ledger {one['ledger']} is {one['state']}: it is not looked at.")
        for one in missing:
            for bookie, entries in one["missing"].items():
                print_note(
                    f"Ledger {one['ledger']}: {bookie} lacks {len(entries):,} of {one['entries']:,} entries."
                )
        closed = [one for one in found if one["state"] == "closed"]
        if not missing:
            entries = sum(one["entries"] for one in closed)
            print_note(f"Every copy is there: {len(closed):,} ledgers, {entries:,} entries.")
    if missing:
        raise typer.Exit(FAILED)


async def _look(bk: BookKeeper, ledger_ids: Sequence[int]) -> list[dict[str, Any]]:
    from herdpy.bookkeeper.errors import NoSuchLedgerError

    wanted = sorted(set(ledger_ids)) or await bk.list_ledgers()
    found = []
    with Bar("reading copies", "ledgers") as bar:
        for number, ledger_id in enumerate(wanted, 1):
            try:
                metadata = await bk.ledger_metadata(ledger_id)
                missing = await bk.missing_copies(ledger_id, metadata.password)
            except NoSuchLedgerError:
                if ledger_ids:
                    raise
                continue  # deleted since it was listed
            found.append(
                {
                    "ledger": ledger_id,
                    "state": metadata.state.name.lower().replace("_", " "),
                    "entries": metadata.last_entry_id + 1 if metadata.is_closed else None,
                    "missing": missing,
                }
            )
            bar.update(number, len(wanted), number)
    return found


def keep_replica(
    uri: str,
    root: str,
    tablespace: str,
    node: str,
    *,
    accept_loss: bool,
    timeout_s: float,
    yes: bool,
    json: bool,
) -> None:
    """Check that it can be done, ask, say it, and wait until it is."""
    word = _Word(root, tablespace, node)
    found = with_cluster(uri, word.look)
    if not json:
        for one in found.values():
            print_note(f"{one.node}: {one.state}, up to {one.applied}")
    _refuse_less(found, node, accept_loss=accept_loss)
    position = found[node].applied
    confirm(f"Is what {node} has, up to {position}, the state of tablespace {tablespace}?", yes=yes)
    with_cluster(uri, lambda bk: word.say(bk, accept_loss=accept_loss, timeout_s=timeout_s))
    if json:
        replicas = [
            {"node": one.node, "state": one.state, "applied": str(one.applied)} for one in found.values()
        ]
        done = {"tablespace": tablespace, "leader": node, "position": str(position), "replicas": replicas}
        sys.stdout.write(jsonlib.dumps(done) + "\n")
    else:
        print_note(f"{node} leads {tablespace}: its log continues after {position}.")


def _refuse_less(found: Mapping[str, Any], node: str, *, accept_loss: bool) -> None:
    """CliError when another replica has more, and that is not to be lost."""
    most = max(found.values(), key=lambda one: one.applied)
    if most.applied > found[node].applied and not accept_loss:
        raise CliError(
            f"the replica on {most.node} has more: up to {most.applied}",
            hint=f"Keep that one; or use --accept-loss to continue with what {node} has.",
        )


class _Word:
    """What is read from ZooKeeper, and written to it, about one replica."""

    def __init__(self, root: str, tablespace: str, node: str) -> None:
        self._layout = needed("herdpy_server.cluster.layout")
        self._positions = needed("herdpy_server.cluster.positions")
        self._paths = self._layout.Layout(root).tablespace(tablespace)
        self._root, self._tablespace, self._node = root, tablespace, node

    async def look(self, bk: BookKeeper) -> dict[str, Any]:
        """The replicas that are there, by node; CliError when none may be kept, or this one is not there."""
        name = self._tablespace
        if await bk.znodes.exists(self._paths.info) is None:
            raise CliError(f"there is no tablespace {name} under {self._root}")
        leader = await bk.znodes.exists(self._paths.leader)
        needs = await self._positions.read_needs(bk.znodes, self._paths)
        found: dict[str, Any] = dict(sorted(needs.replicas.items()))
        if leader is not None:
            record = self._layout.decode(self._layout.LeaderRecord, self._paths.leader, leader.data)
            leads = found.get(record.node)
            if leads is not None and leads.state == "leading":
                raise CliError(
                    f"{name} is led by {record.node}: nothing has to be discarded",
                    hint="See docs/runbooks.md for a replica that is ahead of the log.",
                )
        if self._node not in found:
            raise CliError(
                f"the replica of {name} on {self._node} is not there",
                hint=f"Start its server. These are: {', '.join(found) or 'none'}.",
            )
        return found

    async def say(self, bk: BookKeeper, *, accept_loss: bool, timeout_s: float) -> None:
        """Say it, and wait until it is done; CliError, and it is taken back, when it is not."""
        record = self._layout.KeepRecord(node=self._node, tag=secrets.token_hex(8), accept_loss=accept_loss)
        certain = needed("herdpy_server.cluster.certain")
        await certain.put(bk.znodes, self._paths.keep, self._layout.encode(record), within=self._paths.info)
        try:
            async with asyncio.timeout(timeout_s):
                refusal = await self._done(bk, record.tag)
        except TimeoutError:
            refusal = f"it does not lead after {timeout_s:g} s: its server's log has the reason"
        except BaseException:
            await self._take_back(bk)
            raise
        if refusal:
            await self._take_back(bk)
            raise CliError(
                f"{self._node} is not kept: {refusal}",
                hint="Nothing was discarded. --accept-loss discards what the log has, or may have, besides.",
            )

    async def _done(self, bk: BookKeeper, tag: str) -> str:
        """Why it is refused; empty once it is done."""
        while True:
            znode = await bk.znodes.exists(self._paths.keep)
            if znode is None:
                return ""
            said = self._layout.decode(self._layout.KeepRecord, self._paths.keep, znode.data)
            if said.tag != tag:
                return "another operator has decided otherwise"
            if said.refusal:
                return str(said.refusal)
            await asyncio.sleep(_LOOK_S)

    async def _take_back(self, bk: BookKeeper) -> None:
        if await bk.znodes.exists(self._paths.keep) is not None:
            await bk.znodes.delete(self._paths.keep)


def cat(
    uri: str,
    ledger_id: int,
    first: int,
    last: int | None,
    *,
    follow: bool,
    form: str,
    password_file: Path | None,
) -> None:
    """Print the entries; CliError when the range ends beyond what may be read."""
    write = _writer(form)

    async def work(bk: BookKeeper) -> None:
        metadata = await bk.ledger_metadata(ledger_id)
        reader = await bk.open_ledger(ledger_id, password_of(metadata, password_file))
        try:
            end = reader.last_add_confirmed
            if last is not None and last > end:
                raise CliError(
                    f"ledger {ledger_id} has entries up to {end} so far"
                    if not reader.is_closed
                    else f"the last entry of ledger {ledger_id} is {end}",
                    hint="Use a --to within that, or omit it.",
                )
            if last is None and not follow and first > end:
                print_note(f"Ledger {ledger_id} has no entry {first}: its last one is {end}.")
                return
            await _pour(reader, first, end if last is None else last, follow=follow, write=write)
        finally:
            await reader.close()

    with_cluster(uri, work)


async def _pour(
    reader: LedgerReader, first: int, last: int, *, follow: bool, write: Callable[[Entry], None]
) -> None:
    entries: AsyncIterator[Entry] = reader.tail(first) if follow else reader.read(first, last)
    # A bar would run through what is printed, were both on the terminal.
    if follow or sys.stdout.isatty():
        async for entry in entries:
            write(entry)
            sys.stdout.flush()
        return
    with Bar("reading", "entries") as bar:
        async for entry in entries:
            write(entry)
            done = entry.entry_id - first + 1
            bar.update(done, last - first + 1, done)
    sys.stdout.flush()


def _writer(form: str) -> Callable[[Entry], None]:
    if form == "raw":
        if sys.stdout.isatty():
            raise CliError(
                "raw bytes are not for a terminal", hint="Send them to a file or a pipe.", code=USAGE
            )
        return _raw
    if form == "herdpy":
        return _HerdpyLog().write
    return {"text": _print_text, "hex": _print_hex, "json": _print_json}[form]


def _raw(entry: Entry) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(entry.data)
    sys.stdout.buffer.flush()


def _print_text(entry: Entry) -> None:
    sys.stdout.write(f"{entry.entry_id}\t{escaped(entry.data)}\n")


def escaped(data: bytes) -> str:
    """UTF-8 as text on one line; what is no text, and what a terminal would obey, as ``\\xNN``."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _print_hex(entry: Entry) -> None:
    sys.stdout.write(f"entry {entry.entry_id}, {len(entry.data):,} bytes\n")
    for line in hex_lines(entry.data):
        sys.stdout.write(f"  {line}\n")


def hex_lines(data: bytes) -> Iterator[str]:
    """Offset, sixteen bytes in hex, and what of them is ASCII."""
    for offset in range(0, len(data), _HEX_LINE):
        part = data[offset : offset + _HEX_LINE]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{offset:08x}  {part.hex(' '):<{3 * _HEX_LINE - 1}}  {shown}"


def _print_json(entry: Entry) -> None:
    try:
        text = entry.data.decode()
    except UnicodeDecodeError:
        text = None
    line = {
        "ledger": entry.ledger_id,
        "entry": entry.entry_id,
        "bytes": len(entry.data),
        "length": entry.length,
        "lac": entry.lac,
        "text": text,
        "hex": entry.data.hex(),
    }
    sys.stdout.write(jsonlib.dumps(line, ensure_ascii=False) + os.linesep)


class _HerdpyLog:
    """Entries as HerdPy's log writes them (docs/log-format.md), taken apart into transactions."""

    def __init__(self) -> None:
        self._assembler: TransactionAssembler | None = None

    def write(self, found: Entry) -> None:
        from herdpy.log.entry import TransactionAssembler, decode_entry
        from herdpy.log.errors import ChainError, RecordError
        from herdpy.log.inspect import report_transaction

        where = f"entry {found.entry_id} of ledger {found.ledger_id}"
        try:
            entry = decode_entry(bytes(found.data))
            if self._assembler is None:
                self._assembler = TransactionAssembler(entry.header.predecessor)
                if entry.parts and not entry.parts[0].first:
                    raise CliError(
                        f"{where} continues a transaction that began before it",
                        hint="Begin earlier with --from.",
                    )
            done = [report_transaction(*item) for item in self._assembler.feed(entry)]
        except (RecordError, ChainError) as error:
            raise CliError(
                f"{where} is none of HerdPy's log, or is damaged: {error}",
                hint="Without --herdpy it is shown as it is.",
                code=FAILED,
            ) from error
        part = "" if self._assembler.safe == entry.lsn else " (a part; its transaction continues after it)"
        sys.stdout.write(f"{entry.lsn}  {entry.size:,} bytes, after {entry.header.predecessor}{part}\n")
        for transaction in done:
            when = datetime.fromtimestamp(transaction.timestamp_us / 1_000_000, UTC)
            sys.stdout.write(f"  transaction at {when.isoformat(sep=' ', timespec='milliseconds')}\n")
            for record in transaction.records:
                table = f" table {record.table_id}" if record.table_id is not None else ""
                rows = f" {record.rows:,} rows" if record.rows else ""
                detail = f" {record.detail}" if record.detail else ""
                sys.stdout.write(f"    {record.name}{table}{rows}{detail} ({record.bytes:,} bytes)\n")
