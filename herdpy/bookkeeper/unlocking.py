"""Whether who opens a ledger may: its password, and the type of its digest.

Beside ``client``, which asks before anything is sent to a bookie.
"""

from __future__ import annotations

import hmac

from herdpy.bookkeeper.digest import Digest, DigestType
from herdpy.bookkeeper.errors import WrongDigestTypeError, WrongPasswordError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata


def unlocked(ledger_id: int, metadata: LedgerMetadata, password: bytes, digest: DigestType | None) -> Digest:
    """The digest of a ledger for whoever knows its password (client/LedgerOpenOp.java).

    Args:
        digest: the type that the caller insists on; None: what the ledger has.

    Raises:
        WrongPasswordError, WrongDigestTypeError: it was created otherwise.
    """
    if not metadata.has_password:
        # Before BookKeeper 4.2 neither was stored: the caller's word is all there is.
        return Digest.of(digest or metadata.digest, password)
    if not hmac.compare_digest(metadata.password, password):
        raise WrongPasswordError("the ledger has another password", ledger_id=ledger_id)
    if digest is not None and digest is not metadata.digest:
        raise WrongDigestTypeError(
            f"the ledger's digest type is {metadata.digest.name}, not {digest.name}", ledger_id=ledger_id
        )
    return Digest.of(metadata.digest, password)
