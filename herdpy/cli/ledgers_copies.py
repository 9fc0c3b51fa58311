"""``herdpy ledgers copies``: whether each bookie has what it should have."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from herdpy.cli.errors import FAILED, tell
from herdpy.cli.ledgers_cluster import with_cluster
from herdpy.cli.progress import Bar

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookKeeper


def copies(uri: str, ledger_ids: Sequence[int], *, json: bool) -> None:
    """Look at ledgers (all, if none is named); the exit code is 1 when a copy is missing."""

    async def work(bk: BookKeeper) -> list[dict[str, Any]]:
        return await _look(bk, ledger_ids)

    found = with_cluster(uri, work)
    missing = [one for one in found if one["missing"]]
    if json:
        sys.stdout.write(jsonlib.dumps(found, indent=2) + "\n")
    else:
        for one in found:
            if one["state"] != "closed":
                tell(f"Ledger {one['ledger']} is {one['state']}: it is not looked at.")
        for one in missing:
            for bookie, entries in one["missing"].items():
                tell(
                    f"Ledger {one['ledger']}: {bookie} lacks {len(entries):,} of {one['entries']:,} entries."
                )
        closed = [one for one in found if one["state"] == "closed"]
        if not missing:
            entries = sum(one["entries"] for one in closed)
            tell(f"Every copy is there: {len(closed):,} ledgers, {entries:,} entries.")
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
