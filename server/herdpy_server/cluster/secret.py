"""The secret that all nodes of a cluster share, and how one of them proves to another that it is one.

Beside ``membership``. A node does not send the secret, but a digest of it with its own id and the time, good
for some minutes: who overhears one learns nothing that he does not see anyway. Without a file of one's own
the first node makes a secret and keeps it in ZooKeeper: who may read that may read the ledgers' bookies too.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_server.cluster.names import NODE_ID

if TYPE_CHECKING:
    from herdpy.bookkeeper.metadata.znodes import Znodes

SCHEME = "HerdPy-Node"
"""Stands before a proof, where others have ``Basic``."""

MIN_CHARACTERS = 16
GOOD_FOR_S = 300.0
"""How old a proof may be, and how far apart nodes' clocks."""

_MAX_CHARACTERS = 4096


class NodeSecret:
    """Of one node; until it is known nothing is proved, and nobody is believed."""

    def __init__(self, file: Path | None = None) -> None:
        """``file`` has it in its first line; it is read whenever it is used, so it may be changed."""
        self._file = file
        self._kept: bytes | None = None

    async def learn(self, znodes: Znodes, path: str) -> None:
        """Find the one in ZooKeeper, or make it, unless there is a file. ZooKeeperUnavailableError."""
        if self._file is not None:
            return
        from herdpy_server.cluster.certain import create_own

        made = secrets.token_hex(32).encode()
        other = await create_own(znodes, path, made, made.__eq__)
        self._kept = made if other is None else other.data

    def proof(self, node: str) -> str | None:
        """That this is that node, now; None where there is no secret yet.

        Raises:
            OSError: the file cannot be read, or has none.
        """
        secret = self._secret()
        if secret is None:
            return None
        now_s = str(int(time.time()))
        return f"{SCHEME} {node} {now_s} {_digest(secret, node, now_s)}"

    def proved(self, text: str) -> str | None:
        """The node that ``text`` proves; None when it proves nothing. Errors as :meth:`proof`."""
        secret = self._secret()
        words = text.split(" ")
        if secret is None or len(words) != 4 or words[0] != SCHEME:
            return None
        _scheme, node, told_s, digest = words
        if not NODE_ID.fullmatch(node) or not told_s.isdecimal() or len(told_s) > 12 or not digest.isascii():
            return None
        if not hmac.compare_digest(digest, _digest(secret, node, told_s)):
            return None
        return node if abs(time.time() - int(told_s)) <= GOOD_FOR_S else None

    def signature(self, *parts: bytes) -> bytes | None:
        """That a holder of the secret has these words; None where there is no secret yet.

        A side that gives the other fresh random bytes to be signed is certain that it is not an old one.
        Errors as :meth:`proof`.
        """
        secret = self._secret()
        if secret is None:
            return None
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(secret, b"herdpy signature " + framed, hashlib.sha256)

    def is_signed(self, signature: bytes, *parts: bytes) -> bool:
        """Whether that is the :meth:`signature` of these words. Errors as :meth:`proof`."""
        own = self.signature(*parts)
        return own is not None and hmac.compare_digest(own, signature)

    def _secret(self) -> bytes | None:
        return self._kept if self._file is None else read_secret(self._file)


def read_secret(file: Path) -> bytes:
    """The first line of a file. OSError when it cannot be read, or is too short for a secret."""
    with file.open() as lines:
        line = lines.readline(_MAX_CHARACTERS).strip()
    if len(line) < MIN_CHARACTERS:
        raise OSError(f"{file} has no secret of {MIN_CHARACTERS} characters in its first line")
    return line.encode()


def _digest(secret: bytes, node: str, told_s: str) -> str:
    return hmac.digest(secret, f"herdpy node {node} {told_s}".encode(), hashlib.sha256).hex()
