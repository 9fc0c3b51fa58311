"""Logging in by OpenID Connect: the authorization code flow, with PKCE, state and nonce.

Beside ``authentication``. The browser goes to the provider with a state that is kept here for ten minutes,
bound to that browser by a cookie, and good for one return. The code that it brings back is exchanged by this
server itself; the identity token is judged by PyJWT: its signature by a key that the provider publishes,
issuer, audience, times, nonce. What is fetched is little, in time, and never by a redirect.

Sources: OpenID Connect Core 1.0 (3.1), Discovery 1.0, RFC 7636 (PKCE), RFC 9207 (iss in the answer).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.config.sections import ConsoleSection

logger = logging.getLogger("herdpy.console")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are made with a key that the provider alone has; "none" and HS256 are not among them."""
_MAX_ATTEMPTS = 1000
_ATTEMPT_S = 600.0
_TIMEOUT_S = 10.0
_MAX_BYTES = 1 << 20
_KEEP_S = 3600.0
_LEEWAY_S = 60.0


@dataclass(frozen=True, slots=True)
class OidcAttempt:
    """A login that is under way at the provider."""

    browser: bytes
    nonce: str
    verifier: str
    redirect: str
    target: str
    begun_s: float


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_given: Any) -> None:
        return None


class OidcProvider:
    """One provider.

    Args:
        settings: whose it is, and what this console is called there.
        clock: seconds; monotonic.
    """

    def __init__(self, settings: ConsoleSection, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._attempts: OrderedDict[bytes, OidcAttempt] = OrderedDict()
        self._kept: dict[str, tuple[float, dict[str, Any]]] = {}
        self.name = urlsplit(settings.oidc_issuer).hostname or "OpenID Connect"
        tls = ssl.create_default_context(cafile=settings.oidc_ca or None)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls), _NoRedirects
        )

    async def begin(self, redirect: str, target: str) -> tuple[str, str]:
        """A login begins.

        Args:
            redirect: where the provider is to send the browser; target: where it goes then.

        Returns:
            Where the browser goes, and what its cookie keeps.
        """
        where = (await self._discovered())["authorization_endpoint"]
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        self._forget_old()
        self._attempts[_digest(state)] = OidcAttempt(
            _digest(browser), nonce, verifier, redirect, target, self._clock()
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._settings.oidc_client_id,
                "redirect_uri": redirect,
                "scope": " ".join(self._settings.oidc_scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge.decode(),
                "code_challenge_method": "S256",
            }
        )
        return f"{where}{'&' if '?' in where else '?'}{query}", browser

    def _forget_old(self) -> None:
        now_s = self._clock()
        while self._attempts:
            oldest = next(iter(self._attempts.values()))
            if len(self._attempts) < _MAX_ATTEMPTS and now_s - oldest.begun_s < _ATTEMPT_S:
                return
            self._attempts.popitem(last=False)

    async def finish(self, answer: Mapping[str, str], browser: str) -> tuple[str, str]:
        """The browser is back.

        Args:
            answer: what it brings. browser: what its cookie has kept.

        Returns:
            The role that the provider names, and where the browser goes.

        Raises:
            SqlError: 28000, it proves nothing; 08001, the provider does not answer.
        """
        self._forget_old()
        attempt = self._attempts.pop(_digest(answer.get("state", "")), None)
        if attempt is None or not hmac.compare_digest(attempt.browser, _digest(browser)):
            raise SqlError("28000", "this login was not begun here, or is too old: begin again")
        if "error" in answer:
            reason = answer.get("error_description") or answer["error"]
            raise SqlError("28000", f"{self.name} refuses the login: {reason[:300]}")
        if answer.get("iss", self._settings.oidc_issuer) != self._settings.oidc_issuer:
            raise SqlError("28000", "the answer is another provider's")
        token = await self._identity_token(answer.get("code", ""), attempt)
        claims = await self._claims(token, attempt.nonce)
        role = claims.get(self._settings.oidc_role_claim)
        if not isinstance(role, str) or not role:
            raise SqlError("28000", f"{self.name} names no role in {self._settings.oidc_role_claim}")
        return role, attempt.target

    async def _identity_token(self, code: str, attempt: OidcAttempt) -> str:
        settings, found = self._settings, await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect,
            "code_verifier": attempt.verifier,
            "client_id": settings.oidc_client_id,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if settings.oidc_client_secret_file:
            secret = await asyncio.to_thread(_first_line, Path(settings.oidc_client_secret_file))
            ways = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            if "client_secret_basic" in ways:
                pair = f"{quote(settings.oidc_client_id, safe='')}:{quote(secret, safe='')}"
                headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            else:
                form["client_secret"] = secret
        request = urllib.request.Request(found["token_endpoint"], urlencode(form).encode(), headers)
        token = (await self._fetch(request)).get("id_token")
        if not isinstance(token, str):
            raise SqlError("28000", f"{self.name} gives no identity token")
        return token

    async def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """What an identity token says, once it is judged. SqlError 28000."""
        import jwt

        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header.get("kid"), str(header.get("alg")))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=settings.oidc_client_id,
                issuer=settings.oidc_issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            logger.info("an identity token is refused: %s", error)
            raise SqlError("28000", f"the identity token is refused: {error}") from error
        party = claims.get("azp")
        if party is not None and party != settings.oidc_client_id:
            raise SqlError("28000", "the identity token is another client's")
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise SqlError("28000", "the identity token is of another login")
        return claims

    async def _key(self, kid: object, algorithm: str) -> Any:
        """The key that a token names, of those that the provider publishes; read again where it is new."""
        import jwt

        if algorithm not in ALGORITHMS:
            raise SqlError("28000", f"an identity token signed by {algorithm[:20]} is refused")
        where = (await self._discovered())["jwks_uri"]
        for is_fresh in (False, True):
            document = await self._document(where, is_fresh=is_fresh)
            for one in document.get("keys", ()):
                if one.get("use", "sig") != "sig" or (kid is not None and one.get("kid") != kid):
                    continue
                if one.get("kty") in ("RSA", "EC", "OKP"):
                    return jwt.PyJWK.from_dict(one, algorithm=one.get("alg") or algorithm).key
        raise SqlError("28000", "the identity token is signed by an unknown key")

    async def _discovered(self) -> dict[str, Any]:
        issuer = self._settings.oidc_issuer
        found = await self._document(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise SqlError("28000", f"what answers at {issuer} says to be {found.get('issuer')!r:.200}")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            scheme = urlsplit(str(found.get(name, ""))).scheme
            if scheme != "https" and not (scheme == "http" and issuer.startswith("http:")):
                raise SqlError("28000", f"{name} of {self.name} is no https URL")
        return found

    async def _document(self, url: str, *, is_fresh: bool = False) -> dict[str, Any]:
        kept = self._kept.get(url)
        if kept is not None and not is_fresh and self._clock() - kept[0] < _KEEP_S:
            return kept[1]
        found = await self._fetch(urllib.request.Request(url))
        self._kept[url] = self._clock(), found
        return found

    async def _fetch(self, request: urllib.request.Request) -> dict[str, Any]:
        """A JSON object. SqlError 08001."""
        try:
            found = await asyncio.to_thread(self._read, request)
        except (OSError, ValueError) as error:
            reason = f"{error}"
            logger.warning("%s does not answer as it should", self.name, extra={"reason": reason})
            raise SqlError("08001", f"{self.name} does not answer as it should: {reason[:200]}") from error
        return found

    def _read(self, request: urllib.request.Request) -> dict[str, Any]:
        request.add_header("Accept", "application/json")
        with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
            data = answer.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError("the answer is too long")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("the answer is no JSON object")
        return found


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def _first_line(path: Path) -> str:
    return path.read_text().partition("\n")[0].strip()
