"""Who makes a call: the role and its password out of the metadata, checked by the server's rules.

The rules are those of PostgreSQL's protocol. A password travels as it is, so one is taken over TLS or from
this machine only. Checking one takes milliseconds, by intention, and happens in a thread; what was
found right is remembered by a digest with a key of this process, until the role's verifier changes. A node of
the same cluster proves that it is one, and needs no rule (see ``cluster.secret``).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from concurrent.futures import Executor
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import grpc

from herdpy_server.cluster.secret import GOOD_FOR_S, SCHEME, NodeSecret
from herdpy_server.pgwire.authentication import REJECT, SCRAM, Authority, is_loopback, no_such_user
from herdpy_server.roles.effective_role import EffectiveRole, EffectiveRoles, unlimited_role
from herdpy_server.roles.passwords import Verifier
from herdpy_server.roles.role import RoleStore
from herdpy_server.service.calls import too_many
from herdpy_server.sessions.audit import Auditor
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.rpc")

NOBODY = "herdpy"
"""The role of a caller who does not say who he is."""

_MAX_CREDENTIALS = 4096
_MAX_CHECKS = 64
_REMEMBERED = 1000
CALLER: ContextVar[Caller] = ContextVar("caller")
"""Who makes the call at hand; set by the gate."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was let in, and what he may."""

    user: str
    is_superuser: bool
    replicates: bool
    effective_role: EffectiveRole = field(default_factory=unlimited_role, repr=False)


class Callers:
    """Judges calls.

    Attributes:
        authority: the rules; may be replaced at any time.
        tls_required: refuse calls without TLS.
        effective_roles: of the roles. ``auditor``: is told of calls for the record; None for nobody.
    """

    def __init__(
        self,
        authority: Authority,
        roles: RoleStore | None,
        executor: Executor,
        secret: NodeSecret | None = None,
        *,
        tls_required: bool = False,
        effective_roles: EffectiveRoles | None = None,
    ) -> None:
        self.effective_roles = effective_roles or EffectiveRoles(roles)
        self.auditor: Auditor | None = None
        self.authority = authority
        self.tls_required = tls_required
        self._roles = roles
        self._executor = executor
        self._secret = secret
        self._key = secrets.token_bytes(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._checks = 0

    def tell(self, kind: str, event: str, **fields: object) -> None:
        """Tell for the record what a call does. SqlError 58030 it cannot be told, so it may not be done."""
        if self.auditor is not None:
            self.auditor.event(kind, event, fields)

    async def judge(self, context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
        """Who makes this call.

        Raises:
            SqlError: 28000, no rule lets him in or his credentials are no such; 28P01, the password is
                wrong or missing; 53400, too many passwords are being checked.
        """
        encrypted = b"ssl" in (context.auth_context() or {}).get("transport_security_type", ())
        if (node := self._node(context.invocation_metadata() or ())) is not None:
            if self.tls_required and not encrypted:
                raise SqlError("28000", f"node {node} calls without encryption, and it is required")
            return Caller(f"node {node}", is_superuser=False, replicates=True)
        user, password = credentials(context.invocation_metadata() or ())
        address = address_of(context.peer())
        method = self.authority.method(user, address)
        if method == REJECT or (self.tls_required and not encrypted):
            shown = "TLS" if encrypted else "no encryption"
            raise SqlError("28000", f'no rule lets user "{user}" in from host "{address}", {shown}')
        self._check_certificate(self.authority.certificate(user, address), user, context.auth_context() or {})
        if method == SCRAM:
            if password is None:
                raise SqlError(
                    "28P01",
                    f'a password is needed for user "{user}"',
                    hint='Send metadata "authorization": "Basic " and the base64 of "role:password".',
                )
            if not encrypted and not is_loopback(address):
                raise SqlError(
                    "28000",
                    "a password is taken over TLS or from this machine only",
                    hint="Give the server tls.certificate and tls.key.",
                )
            await self._check(user, password)
        return self._admitted(user)

    def _check_certificate(self, wanted: str, user: str, shown: Any) -> None:
        """SqlError 28000 unless the caller has shown the certificate that a rule asks for."""
        if not wanted:
            return
        names = [one.decode(errors="replace") for one in shown.get("x509_common_name", ())]
        if not names:
            raise SqlError(
                "28000",
                "a valid client certificate is needed",
                hint='gRPC asks for one where tls.client_certificate is "required".',
            )
        if wanted == "verify-full" and user not in names:
            raise SqlError("28000", f'certificate authentication failed for user "{user}"')

    def _node(self, metadata: Any) -> str | None:
        """The node of this cluster that makes a call, None for who is none. SqlError 28000 for who lies."""
        given = [value for key, value in metadata if key == "authorization"]
        if not given or not isinstance(given[0], str) or not given[0].startswith(f"{SCHEME} "):
            return None
        found = None
        if len(given) == 1 and len(given[0]) <= _MAX_CREDENTIALS and self._secret is not None:
            try:
                found = self._secret.proved(given[0])
            except OSError as error:
                logger.error("the secret of the cluster cannot be read: %s", error)
        if found is None:
            raise SqlError(
                "28000",
                "this does not prove that a node of the cluster calls",
                hint="All nodes need the same cluster.secret_file, and clocks that are less than "
                f"{GOOD_FOR_S / 60:.0f} minutes apart.",
            )
        return found

    def _admitted(self, user: str) -> Caller:
        role = None if self._roles is None else self._roles.get(user)
        if role is None:  # who is trusted without being known may do everything, as in PostgreSQL's protocol
            return Caller(user, is_superuser=True, replicates=True)
        if not role.can_login:
            raise SqlError("28000", f'role "{user}" is not permitted to log in')
        effective_role = self.effective_roles.of_key(role.ident)
        return Caller(user, role.is_superuser, role.is_superuser or role.replicates, effective_role)

    async def _check(self, user: str, password: str) -> None:
        verifier = self.authority.verifier(user) or no_such_user(user, self._key)
        proof = hmac.digest(self._key, f"{user}\0{verifier.text()}\0{password}".encode(), hashlib.sha256)
        if proof in self._right:
            self._right.move_to_end(proof)
            return
        if self._checks >= _MAX_CHECKS:
            raise too_many("passwords to check", _MAX_CHECKS)
        self._checks += 1
        try:
            fits = await asyncio.get_running_loop().run_in_executor(self._executor, _fits, verifier, password)
        finally:
            self._checks -= 1
        if not fits:
            raise SqlError("28P01", f'password authentication failed for user "{user}"')
        self._right[proof] = None
        if len(self._right) > _REMEMBERED:
            self._right.popitem(last=False)


def _fits(verifier: Verifier, password: str) -> bool:
    return verifier.fits(password)


def credentials(metadata: Any) -> tuple[str, str | None]:
    """Role and password of a call's metadata; SqlError 28000 when they are none."""
    given = [value for key, value in metadata if key == "authorization"]
    if not given:
        return NOBODY, None
    kind, _, text = (given[0] if isinstance(given[0], str) else "").partition(" ")
    if len(given) > 1 or kind.lower() != "basic" or len(text) > _MAX_CREDENTIALS:
        raise _malformed()
    try:
        user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise _malformed() from None
    if not user or not colon or "\0" in user + password:
        raise _malformed()
    return user, password or None


def _malformed() -> SqlError:
    return SqlError(
        "28000",
        "the metadata authorization cannot be read",
        hint='It is "Basic " and the base64 of "role:password".',
    )


def address_of(peer: str) -> str:
    """The host of gRPC's name of a peer, such as ``ipv4:127.0.0.1:4711`` or ``ipv6:[::1]:4711``."""
    _kind, _, place = peer.partition(":")
    return unquote(place).rpartition(":")[0].strip("[]")
