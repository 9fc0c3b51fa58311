"""Who may come in, and how it is proved: rules and roles behind a protocol, and SCRAM-SHA-256.

Pure. An :class:`Authority` knows roles, the verifiers of their passwords, and the rules for hosts. SCRAM
shows that a client knows the password, without having it here or sending it. Source: RFC 5802 and 7677, as
PostgreSQL uses them: the user is the one of the start-up packet, so the name within the messages, which libpq
leaves empty, is not looked at. (That empty name is why the exchange is not left to scramp, which takes it for
an error.) Channel binding is tls-server-end-point of RFC 5929.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable
from typing import Any, Protocol

from herdpy_server.pgwire.backend import FatalError
from herdpy_server.roles.passwords import DEFAULT_ITERATIONS, Verifier

TRUST = "trust"
SCRAM = "scram-sha-256"
CERTIFICATE = "cert"
REJECT = "reject"
PLAIN = "SCRAM-SHA-256"
BOUND = "SCRAM-SHA-256-PLUS"
_SALT_BYTES = 16
_NONCE_BYTES = 18


class Authority(Protocol):
    """Knows roles, their passwords' verifiers, and the rules for hosts."""

    def method(self, user: str, address: str | None) -> str:
        """How a user who comes from ``address`` (None: a Unix socket) proves it.

        TRUST, SCRAM, CERTIFICATE or REJECT.
        """

    def certificate(self, user: str, address: str | None) -> str:
        """Which client certificate he must show: "" none, "verify-ca" any, "verify-full" one of his name."""

    def verifier(self, user: str) -> Verifier | None:
        """What a user's password is checked with; None for one who has none, or is not there."""


class LoopbackTrust:
    """Trusts this machine, and asks everybody else for a password.

    Args:
        verifier: what a user's password is checked with; None for one who has none, or is not there.
    """

    def __init__(self, verifier: Callable[[str], Verifier | None]) -> None:
        self._verifier = verifier

    def method(self, user: str, address: str | None) -> str:
        """TRUST for loopback addresses and Unix sockets."""
        del user
        return TRUST if address is None or is_loopback(address) else SCRAM

    def certificate(self, user: str, address: str | None) -> str:
        """None."""
        del user, address
        return ""

    def verifier(self, user: str) -> Verifier | None:
        """See ``Authority``."""
        return self._verifier(user)


def common_name(certificate: dict[str, Any]) -> str:
    """The common name in a certificate, as ``SSLObject.getpeercert`` gives it; "" for none."""
    for names in certificate.get("subject", ()):
        for key, value in names:
            if key == "commonName":
                return str(value)
    return ""


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


def no_such_user(user: str, key: bytes) -> Verifier:
    """A verifier that nothing satisfies, always the same for a user: asking tells not who exists.

    Args:
        key: a secret of this server.
    """
    salt = hmac.digest(key, b"salt " + user.encode(), "sha256")[:_SALT_BYTES]
    return Verifier(salt, DEFAULT_ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))


def end_point(certificate_der: bytes) -> bytes:
    """The channel binding of TLS connections that show this certificate."""
    from asn1crypto.x509 import Certificate  # type: ignore[import-untyped]

    name = Certificate.load(certificate_der).hash_algo
    return hashlib.new("sha256" if name in {"md5", "sha1"} else name, certificate_der).digest()


class ScramExchange:
    """One authentication: :meth:`first`, then :meth:`final`.

    Args:
        binding: of the TLS connection, where the client chose the mechanism that is bound to it.
        offered: whether that mechanism was offered: a client that thinks otherwise was lied to.
    """

    def __init__(
        self,
        mechanism: str,
        verifier: Verifier,
        *,
        binding: bytes | None,
        offered: bool,
        nonce: str | None = None,
    ) -> None:
        self._verifier = verifier
        self._bound = mechanism == BOUND
        self._binding = binding
        self._offered = offered
        self._nonce = nonce or secrets.token_urlsafe(_NONCE_BYTES)
        self._header = b""
        self._messages = b""

    def first(self, message: bytes) -> bytes:
        """The client's first message; gives the challenge. FatalError 08P01 when it is malformed."""
        flag, _, rest = message.partition(b",")
        identity, comma, bare = rest.partition(b",")
        if not comma or identity:
            raise _malformed("the client's first message")
        self._check_binding_flag(flag)
        self._header = flag + b",,"
        attributes = _attributes(bare)
        client_nonce = attributes.get(b"r", b"")
        if bare[:2] == b"m=" or b"n" not in attributes or not _printable(client_nonce):
            raise _malformed("the client's first message")
        self._nonce = client_nonce.decode() + self._nonce
        verifier = self._verifier
        salt = base64.b64encode(verifier.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={verifier.iterations}".encode()
        self._messages = bare + b"," + challenge
        return challenge

    def _check_binding_flag(self, flag: bytes) -> None:
        if self._bound:
            if flag != b"p=tls-server-end-point":
                raise _malformed("channel binding of another kind than tls-server-end-point")
        elif flag == b"y":
            if self._offered:
                raise FatalError(
                    "28000",
                    "SCRAM channel binding negotiation error",
                    detail="The client supports SCRAM channel binding but thinks the server does not.",
                )
        elif flag != b"n":
            raise _malformed("channel binding without the mechanism for it")

    def final(self, message: bytes) -> bytes | None:
        """The client's proof; gives the server's own, or None when the password was wrong.

        Raises:
            FatalError: 08P01, the message is malformed or of another exchange.
        """
        without, comma, proof_text = message.rpartition(b",p=")
        attributes = _attributes(without)
        if not comma or not without.startswith(b"c=") or attributes.get(b"r") != self._nonce.encode():
            raise _malformed("the client's proof")
        expected = self._header + (self._binding or b"" if self._bound else b"")
        if not hmac.compare_digest(_base64(attributes[b"c"]), expected):
            raise FatalError("28000", "SCRAM channel binding check failed")
        verifier = self._verifier
        proof = _base64(proof_text)
        signed = self._messages + b"," + without
        signature = hmac.digest(verifier.stored_key, signed, "sha256")
        if len(proof) != len(signature):
            raise _malformed("the client's proof")
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(verifier.server_key, signed, "sha256"))


def _attributes(message: bytes) -> dict[bytes, bytes]:
    return {part[:1]: part[2:] for part in message.split(b",") if part[1:2] == b"="}


def _printable(nonce: bytes) -> bool:
    return bool(nonce) and all(0x21 <= byte <= 0x7E and byte != 0x2C for byte in nonce)


def _base64(value: bytes) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise _malformed("base64") from None


def _malformed(what: str) -> FatalError:
    return FatalError("08P01", "malformed SCRAM message", detail=f"This is wrong: {what}.")
