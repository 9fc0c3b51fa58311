"""``herdpy ledgers ls``, ``show`` and ``bookies``: metadata as tables and as JSON."""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from herdpy.cli.errors import FAILED, tell
from herdpy.cli.ledgers_cluster import with_cluster
from herdpy.cli.output import write_table
from herdpy.cli.progress import Bar

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookieInfo, BookKeeper, LedgerMetadata

_AT_ONCE = 64


def ls(uri: str, *, json: bool) -> None:
    """List the ledgers; one whose metadata cannot be read has its problem beside it, and the exit code 1."""
    listed = with_cluster(uri, _list)
    if json:
        sys.stdout.write(jsonlib.dumps(listed, indent=2) + "\n")
    elif not listed:
        tell("There are no ledgers.")
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
        sys.stdout.write(jsonlib.dumps(facts, indent=2) + "\n")
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
        sys.stdout.write(jsonlib.dumps(listed, indent=2) + "\n")
    elif not found:
        tell("No bookie is or was registered.")
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
