"""How far a ledger is confirmed, asked of the bookies and proven by digests.

Between ``reader`` and ``tail`` above and the bookies. A bookie tells the last add confirmed in two bodies,
both sealed by the writer: its last explicit one, and the last entry it stored, which carries the one known
when it was sent. The greater of the two counts (client/PendingReadLacOp.java). A body whose digest is wrong
is no answer at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest, entry_id_in
from herdpy.bookkeeper.errors import BookieUnavailableError, BookKeeperError
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY
from herdpy.bookkeeper.read.quorum import BookieBackoff, EnsembleQuestion
from herdpy.bookkeeper.read.view import LedgerView

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool
    from herdpy.bookkeeper.wire.replies import LacReply

log = logging.getLogger("herdpy.bookkeeper.reader")


def proven_lac(reply: LacReply, ledger_id: int, digest: Digest) -> int:
    """The last add confirmed that a reply proves; -1 when it has neither body.

    Raises:
        DigestMismatchError: one of its bodies is not what the writer sealed.
    """
    lac = NO_ENTRY
    if reply.lac_body:
        lac = max(lac, digest.open_lac(reply.lac_body, ledger_id))
    if reply.last_entry_body:
        lac = max(lac, digest.open(reply.last_entry_body, ledger_id, None).lac)
    return lac


async def ask_one(bookie_id: str, view: LedgerView, pool: BookiePool, digest: Digest) -> int:
    """Ask one bookie, and let the view know what it proves.

    Raises:
        BookKeeperError: it did not answer, has nothing of the ledger, or proves nothing.
    """
    reply = await pool.get(bookie_id).read_lac(view.ledger_id)
    lac = proven_lac(reply, view.ledger_id, digest)
    if reply.last_entry_body:
        view.last_stored = max(view.last_stored, entry_id_in(reply.last_entry_body))
    view.prove(lac)
    return lac


async def read_last_confirmed(
    view: LedgerView, pool: BookiePool, digest: Digest, patience_s: float = 0.0
) -> int:
    """Ask the whole last ensemble until every write set is covered; returns what the view then holds.

    When too few answer, the metadata are read again: the ensemble may be another one by now. If it is the
    same, bookies that cannot be reached are asked again, for ``patience_s`` in all.

    Raises:
        BookieUnavailableError: too few bookies answered.
        UnauthorizedError: a bookie wants another password.
        NoSuchLedgerError: the ledger was deleted.
    """
    none, all_of_it = BookieBackoff(pool, 0.0), BookieBackoff(pool, patience_s)
    patience = none
    while not view.is_closed:
        metadata = view.metadata
        question = EnsembleQuestion(
            metadata,
            lambda bookie_id: ask_one(bookie_id, view, pool, digest),
            view.was_remade,
            patience,
        )
        try:
            if await question.covered():
                break
        finally:
            question.close()
        await view.refresh()
        if view.metadata.last_segment != metadata.last_segment or view.is_closed:
            patience = none
        elif patience is none and not all_of_it.is_over:
            patience = all_of_it
        else:
            raise _not_covered(view.ledger_id, question)
    return view.last_add_confirmed


def _not_covered(ledger_id: int, question: EnsembleQuestion[int]) -> BookKeeperError:
    return BookieUnavailableError(
        f"too few bookies answered to know the last add confirmed: {question.what_was_said()}",
        ledger_id=ledger_id,
    )
