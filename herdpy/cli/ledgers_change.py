"""``herdpy ledgers recover`` and ``rm``: what changes a ledger asks first."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from herdpy.cli.errors import FAILED, USAGE, CliError, tell
from herdpy.cli.ledgers_cluster import password_of, with_cluster
from herdpy.cli.progress import Bar

if TYPE_CHECKING:
    from herdpy.bookkeeper import BookKeeper


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
        tell(f"Ledger {ledger_id} {how}: {done['last_entry'] + 1:,} entries, {done['bytes']:,} bytes.")


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
        tell(f"Deleted: {', '.join(map(str, deleted)) or 'none'}.")
        if missing:
            tell(f"Not there: {', '.join(map(str, missing))}.")
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
        raise CliError("nobody answered, nothing was changed", hint=hint, code=USAGE) from None
    if not agreed:
        raise CliError("nothing was changed")
