"""Passwords as they are kept: SCRAM-SHA-256 verifiers, which can check a proof and make none.

Format: PostgreSQL's ``SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>`` (base64), so that
verifiers can be taken from one to the other. Source: RFC 5802, RFC 7677; passwords are prepared as RFC 4013
says where that is possible, and taken as they are where not, as PostgreSQL does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

DEFAULT_ITERATIONS = 4096
_SALT_BYTES = 16
_KEY_BYTES = 32
_MAX_ITERATIONS = 10_000_000
_OF_ROLES = re.compile(r"(?:CREATE|ALTER)\b.*(?:ROLE|USER|GROUP)\b", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"PASSWORD(?!\w)", re.IGNORECASE)
_SECRET = re.compile(
    r"""(?<!['"\w$]) (PASSWORD (?: \s | /\*.*?\*/ | --[^\n]*\n )*)
        (?: [eE]?'(?:[^'\\]|''|\\.)*'? | \$(\w*)\$.*?(?:\$\2\$|\Z) )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is kept of a password."""

    salt: bytes = field(repr=False)
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(
        cls, password: str, *, salt: bytes | None = None, iterations: int = DEFAULT_ITERATIONS
    ) -> Verifier:
        """The verifier of a password. It takes milliseconds, by intention."""
        from scramp.core import ScramException, saslprep  # type: ignore[import-untyped]

        try:
            prepared = saslprep(password)
        except ScramException:
            prepared = password
        salt = salt or secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac("sha256", prepared.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        return cls(
            salt,
            iterations,
            hashlib.sha256(client_key).digest(),
            hmac.digest(salted, b"Server Key", "sha256"),
        )

    @classmethod
    def parse(cls, text: str) -> Verifier | None:
        """A verifier from its text; None for what is none."""
        parts = re.fullmatch(r"SCRAM-SHA-256\$(\d{1,8}):([^$:]+)\$([^$:]+):([^$:]+)", text)
        if parts is None or not 1 <= int(parts[1]) <= _MAX_ITERATIONS:
            return None
        try:
            salt, stored, server = (base64.b64decode(parts[i], validate=True) for i in (2, 3, 4))
        except binascii.Error:
            return None
        if not salt or len(stored) != _KEY_BYTES or len(server) != _KEY_BYTES:
            return None
        return cls(salt, int(parts[1]), stored, server)

    def text(self) -> str:
        """The text that :meth:`parse` reads."""
        salt, stored, server = (
            base64.b64encode(one).decode() for one in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    def fits(self, password: str) -> bool:
        """Whether it is this password's."""
        other = Verifier.of(password, salt=self.salt, iterations=self.iterations)
        return hmac.compare_digest(self.stored_key, other.stored_key)


def without_passwords(sql: str) -> str:
    """A statement's text for logs and statistics: what follows the word PASSWORD is not shown."""
    if "password" not in sql.lower():
        return sql
    if _OF_ROLES.search(sql):
        # However it is quoted, commented or cut: nothing that follows the word is shown.
        found = _WORD.search(sql)
        return sql if found is None else sql[: found.end()] + " <hidden>"
    return _SECRET.sub(r"\1<hidden>", sql)
