"""SASL DIGEST-MD5: a user name and a password for bookies that run BookKeeper's SASL plugin.

A provider for `connector.authenticate`. MD5 protects nothing by today's measure: use it under TLS, which
keeps the exchange from being read and guessed at. (The plugin's other mechanism, Kerberos, is not built
here.)

Format: RFC 2831, with service and host "bookkeeper" as BookKeeper has them (sasl/SaslConstants.java).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

from herdpy.bookkeeper.errors import AuthenticationError

MAX_CHALLENGE_BYTES = 2048
"""RFC 2831 2.1.1: a challenge is shorter than this."""

_NONCE_COUNT = "00000001"
_directives = re.compile(r'[\s,]*([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?:,|$)')


class SaslDigestMd5:
    """Authenticates by user name and password at bookies with SASLBookieAuthProviderFactory.

    Bookies accept only user names that match their saslJaasClientAllowedIds (unless configured otherwise,
    those that contain "bookkeeper"). One that rejects the password says nothing: connecting then times out.
    """

    plugin = "sasl"

    def __init__(
        self,
        username: str,
        password: str,
        *,
        digest_uri: str = "bookkeeper/bookkeeper",
        client_nonce: Callable[[], str] = secrets.token_hex,
    ) -> None:
        """`digest_uri` names service and host; `client_nonce` gives what is never used twice."""
        self._username = username
        self._password = password
        self._digest_uri = digest_uri
        self._client_nonce = client_nonce

    def __repr__(self) -> str:
        return f"SaslDigestMd5({self._username!r})"

    def exchange(self, host: str) -> _Exchange:
        """A new exchange; the same for every host."""
        return _Exchange(self._username, self._password, self._digest_uri, self._client_nonce())


class _Exchange:
    """One connection's side: the answer to the challenge, then the check of the bookie's proof."""

    def __init__(self, username: str, password: str, digest_uri: str, client_nonce: str) -> None:
        self._username = username
        self._password = password
        self._digest_uri = digest_uri
        self._client_nonce = client_nonce
        self._proof: str | None = None

    def start(self) -> bytes:
        return b""

    def respond(self, payload: bytes) -> bytes | None:
        directives = _parse(payload)
        if self._proof is None:
            return self._answer(directives)
        if not hmac.compare_digest(directives.get("rspauth", "").encode(), self._proof.encode()):
            raise AuthenticationError("the bookie does not know this user's password")
        return None

    def _answer(self, challenge: dict[str, str]) -> bytes:
        nonce = challenge.get("nonce")
        if not nonce or challenge.get("algorithm") != "md5-sess":
            raise AuthenticationError("the bookie's challenge is not of DIGEST-MD5")
        if "auth" not in re.split(r"[\s,]+", challenge.get("qop", "auth")):
            raise AuthenticationError("the bookie requires more than authentication")
        realm = challenge.get("realm", "")
        secret = b":".join(map(_hashed_form, (self._username, realm, self._password)))
        session = hashlib.md5(secret).digest() + f":{nonce}:{self._client_nonce}".encode()
        key = hashlib.md5(session).hexdigest()

        def proof(method: str) -> str:
            what = _hex_md5(f"{method}:{self._digest_uri}")
            return _hex_md5(f"{key}:{nonce}:{_NONCE_COUNT}:{self._client_nonce}:auth:{what}")

        self._proof = proof("")
        return ",".join(
            [
                "charset=utf-8",
                f"username={_quoted(self._username)}",
                f"realm={_quoted(realm)}",
                f"nonce={_quoted(nonce)}",
                f"nc={_NONCE_COUNT}",
                f"cnonce={_quoted(self._client_nonce)}",
                f"digest-uri={_quoted(self._digest_uri)}",
                f"response={proof('AUTHENTICATE')}",
                "qop=auth",
            ]
        ).encode()


def _parse(payload: bytes) -> dict[str, str]:
    """The directives of a message; of several with one name the first."""
    directives: dict[str, str] = {}
    try:
        text = payload.decode() if len(payload) < MAX_CHALLENGE_BYTES else ""
    except UnicodeDecodeError:
        text = ""
    at = 0
    while at < len(text):
        found = _directives.match(text, at)
        if found is None:
            break
        name, quoted, plain = found.groups()
        directives.setdefault(name, re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain)
        at = found.end()
    if not directives or text[at:].strip(" ,"):
        raise AuthenticationError("the bookie's authentication message cannot be understood")
    return directives


def _hashed_form(text: str) -> bytes:
    """RFC 2831 2.1.2.1: ISO 8859-1 where it can be, else UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _hex_md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
