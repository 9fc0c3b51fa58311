"""A provider of OpenID Connect for tests: it lets everybody in, and can lie in every way."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT, SECRET = "the console", "s3cret: %"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE_KEY = ec.generate_private_key(ec.SECP256R1())


class FakeProvider:
    """Its issuer is ``issuer``.

    Attributes:
        claims: added to those of the next identity tokens; None leaves one out.
        sign: makes a token of claims.
        discovery: added to what is discovered.
        requests: how often each path was requested.
    """

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any]], str] = signed
        self.discovery: dict[str, Any] = {}
        self.keys: dict[str, Any] = {"k1": KEY}
        self.requests: dict[str, int] = {}
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_given: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._answer(provider.get(urlsplit(self.path).path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self._answer(provider.token(form, self.headers.get("authorization", "")))

            def _answer(self, found: tuple[int, dict[str, Any]]) -> None:
                data = json.dumps(found[1]).encode()
                self.send_response(found[0])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}/realm"

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        self.requests[path] = self.requests.get(path, 0) + 1
        if path == "/realm/.well-known/openid-configuration":
            found = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
            return 200, found | self.discovery
        if path == "/realm/keys":
            keys = [public(kid, key) for kid, key in self.keys.items()]
            return 200, {"keys": keys}
        return 404, {}

    def authorize(self, url: str) -> dict[str, str]:
        """The user agrees: what the browser brings back, of where it was sent to."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert given["response_type"] == "code"
        assert (given["client_id"], given["code_challenge_method"]) == (CLIENT, "S256")
        code = f"code-{len(self._codes)}"
        self._codes[code] = given
        return {"code": code, "state": given["state"]}

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        given = self._codes.pop(form.get("code", ""), None)
        pair = base64.b64encode(b"the%20console:s3cret%3A%20%25").decode()
        if given is None or authorization != f"Basic {pair}":
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if challenge != given["code_challenge"] or form["redirect_uri"] != given["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 60,
            "nonce": given["nonce"], "preferred_username": "ann",
        } | self.claims  # fmt: skip
        return 200, {"id_token": self.sign({name: one for name, one in claims.items() if one is not None})}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def signed(claims: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", kid: str | None = "k1") -> str:
    return jwt.encode(claims, key, algorithm, headers={} if kid is None else {"kid": kid})


def public(kid: str, key: Any) -> dict[str, Any]:
    kind = (
        jwt.algorithms.ECAlgorithm
        if isinstance(key, ec.EllipticCurvePrivateKey)
        else jwt.algorithms.RSAAlgorithm
    )
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    made = FakeProvider()
    try:
        yield made
    finally:
        made.close()
