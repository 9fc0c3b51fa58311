"""Taking a ledger from its writer: every bookie of the last ensemble is told to accept no more adds.

The first step of ``recovery``. The same request returns the last entry each bookie has, whose header says
what was confirmed when it was sent: where the search for the ledger's end begins.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import DigestMismatchError, RecoveryError
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerMetadata
from herdpy.bookkeeper.read.patience import BookieBackoff
from herdpy.bookkeeper.read.quorum import EnsembleQuestion

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

log = logging.getLogger("herdpy.bookkeeper.recovery")

LAST_ENTRY = -1


@dataclass(frozen=True, slots=True)
class Fenced:
    """What a fenced ensemble said.

    Attributes:
        last_add_confirmed: the highest one that a stored entry carries or the segments imply.
        last_entries: the last entry of each bookie that has one.
    """

    last_add_confirmed: int
    last_entries: tuple[Entry, ...]


async def fence(
    ledger_id: int,
    metadata: LedgerMetadata,
    pool: BookiePool,
    digest: Digest,
    fence_key: bytes,
    remade: frozenset[str],
    patience_s: float,
) -> Fenced:
    """Fence the last ensemble until no ack quorum can be formed without a fenced bookie.

    Bookies that have not answered by then are not waited for: what they may still accept cannot be
    confirmed, and every later read of a recovery fences them as well. Needed ones that cannot be reached
    are asked again for ``patience_s``.

    Args:
        remade: bookies that began with empty disks after the ledger was made: that they have nothing of it
            is no answer.

    Raises:
        UnauthorizedError: a bookie holds the ledger under another password.
        RecoveryError: too few bookies answered; names what each said.
    """

    async def ask(bookie_id: str) -> Entry | None:
        reply = await pool.get(bookie_id).read(ledger_id, LAST_ENTRY, fence_key=fence_key)
        try:
            return digest.open(reply.body or b"", ledger_id, None)
        except DigestMismatchError as error:
            # It is fenced all the same; what it does not tell, the forward reads find.
            log.warning(
                "a bookie's last entry does not match its digest",
                extra={"ledger_id": ledger_id, "bookie": bookie_id, "error": str(error)},
            )
            return None

    async def was_remade(bookie_id: str) -> bool:
        return bookie_id in remade

    question = EnsembleQuestion(metadata, ask, was_remade, BookieBackoff(pool, patience_s))
    try:
        if not await question.covered():
            raise RecoveryError(
                f"too few bookies could be fenced: {question.what_was_said()}", ledger_id=ledger_id
            )
    finally:
        question.close()
    entries = tuple(entry for entry in question.answers.values() if entry is not None)
    # A segment starts right behind what its writer knew to be confirmed.
    known = max((entry.lac for entry in entries), default=NO_ENTRY)
    return Fenced(max(known, metadata.last_segment.first_entry_id - 1), entries)
