"""Which roles may log in to the console: the rules, roles and passwords of PostgreSQL's protocol, by HTTP.

Above ``logins``, below ``app``. A password is checked with the role's SCRAM verifier, in a thread, since that
takes milliseconds by intention; of a role that is not there it takes as long. Client certificates are not
read here, so a rule that requires one lets nobody in. A login is judged again at every request: with the
rule, the role or the password it rests on it ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy_server.console.logins import Throttle
from herdpy_server.pgwire.admission import session_for
from herdpy_server.pgwire.authentication import REJECT, SCRAM, TRUST, is_loopback, no_such_user
from herdpy_server.pgwire.backend import FatalError
from herdpy_sql.errors import SqlError
from herdpy_sql.system.state import OWNER

if TYPE_CHECKING:
    from herdpy_server.console.logins import Evidence, Login
    from herdpy_server.pgwire.context import PgContext

logger = logging.getLogger("herdpy.console")

_MAX_CHECKS = 8
_MAX_NAME_CHARS = 200
_MAX_PASSWORD_CHARS = 4096


@dataclass(frozen=True, slots=True)
class Visitor:
    """Where a request comes from.

    Attributes:
        address: of its connection.
        is_encrypted: by TLS, up to us.
        is_local: of this machine, under a name of this machine, and nothing stands between.
    """

    address: str
    is_encrypted: bool
    is_local: bool


class PasswordRefusedError(SqlError):
    """Nobody was let in. ``wait_s``: for how long no try is looked at."""

    wait_s = 0.0


class ConsoleAuthentication:
    """Judges logins when they begin, and again at every request.

    Args:
        allow_plain_password: passwords are taken from other machines without TLS.
    """

    def __init__(self, context: PgContext, *, allow_plain_password: bool) -> None:
        self._context = context
        self._allow_plain = allow_plain_password
        self._throttle = Throttle()
        self._checks = 0

    def opens_for(self, visitor: Visitor) -> str | None:
        """The role as which the console opens without a login; None: with one only."""
        try:
            return OWNER if self._method(visitor, OWNER) == TRUST and self._may_log_in(OWNER) else None
        except SqlError:
            return None

    def takes_passwords(self, visitor: Visitor) -> bool:
        """Whether a password may be sent from there."""
        return visitor.is_encrypted or self._allow_plain or is_loopback(visitor.address)

    async def prove(self, visitor: Visitor, user: str, password: str, database: str) -> tuple[Evidence, str]:
        """What ``user`` is let in for, and what must stay so; it is in the audit log.

        Raises:
            SqlError: 28000, 28P01 it is not; 53300, 42501, 3D000, 57P03 as for every client.
        """
        try:
            evidence = await self._prove(visitor, user, password)
            self.check_database(user, database)
        except SqlError as error:
            self.record("refused", visitor, user, database, error.sqlstate)
            raise
        self.record("login", visitor, user, database)
        return evidence, self._proof(user, evidence)

    def admit_named(self, visitor: Visitor, user: str, database: str) -> str:
        """Let in a role that a provider of identities has named; what must stay so.

        Raises:
            SqlError: 28000 there is no such role, or it may not come from there; and as :meth:`prove`.
        """
        store = self._context.registry.role_store
        try:
            # A role that is not there may do everything, for those that the rules trust: never for others.
            if store is None or store.get(user) is None or not self._may_log_in(user):
                raise SqlError("28000", f'"{user[:_MAX_NAME_CHARS]}" is no role that may log in')
            if self._method(visitor, user) == REJECT or not self.takes_passwords(visitor):
                raise SqlError("28000", f'no rule lets user "{user}" in from host "{visitor.address}"')
            self.check_database(user, database)
        except SqlError as error:
            self.record("refused", visitor, user, database, error.sqlstate)
            raise
        self.record("login", visitor, user, database)
        return self._proof(user, "oidc")

    def admit_trusted(self, visitor: Visitor, user: str, database: str) -> str:
        """Let in a role that the rules trust, as :meth:`opens_for` says; what must stay so."""
        self.check_database(user, database)
        self.record("login", visitor, user, database)
        return self._proof(user, "trust")

    def check_database(self, user: str, database: str) -> None:
        """SqlError as a client of PostgreSQL's protocol gets it, once it has proved to be ``user``."""
        try:
            session_for(self._context, user, database)
        except FatalError as error:
            raise error.error from error

    def still_holds(self, login: Login, visitor: Visitor) -> bool:
        """Whether what a login rests on is still so."""
        try:
            if not self._may_log_in(login.user) or login.proof != self._proof(login.user, login.evidence):
                return False
            method = self._method(visitor, login.user)
        except SqlError as error:
            return error.sqlstate == "57P03"  # it is not known now: the pages' statements say the rest
        return method == TRUST if login.evidence == "trust" else method != REJECT

    async def _prove(self, visitor: Visitor, user: str, password: str) -> Evidence:
        if not user or len(user) > _MAX_NAME_CHARS or "\0" in user + password:
            raise SqlError("28000", "this is no name of a role")
        if len(password) > _MAX_PASSWORD_CHARS:
            raise SqlError("28P01", "the password is too long")
        method = self._method(visitor, user)
        if method == TRUST:
            return "trust"
        if method != SCRAM:
            shown = "TLS" if visitor.is_encrypted else "no encryption"
            raise SqlError(
                "28000", f'no rule lets user "{user}" in from host "{visitor.address}" by a password, {shown}'
            )
        if not self.takes_passwords(visitor):
            raise SqlError(
                "28000",
                "a password is taken over TLS or from this machine only",
                hint="Set http.tls, or console.allow_plain_password where a proxy encrypts.",
            )
        await self._check_password(visitor, user, password)
        return "password"

    async def _check_password(self, visitor: Visitor, user: str, password: str) -> None:
        wait_s = self._throttle.wait_s(visitor.address, user)
        if wait_s > 0:
            refused = PasswordRefusedError("53400", f"too many tries: try again in {wait_s:.0f} seconds")
            refused.wait_s = wait_s
            raise refused
        if self._checks >= _MAX_CHECKS:
            raise SqlError("53400", "too many passwords are being checked: try again")
        context = self._context
        verifier = context.authority.verifier(user) or no_such_user(user, context.mock_key)
        self._throttle.tried(visitor.address, user)
        self._checks += 1
        try:
            fits = await asyncio.to_thread(verifier.fits, password)
        finally:
            self._checks -= 1
        if not fits:
            raise SqlError("28P01", f'password authentication failed for user "{user}"')
        self._throttle.succeeded(visitor.address, user)

    def _method(self, visitor: Visitor, user: str) -> str:
        """As the rules say; what they trust this machine with is not for proxies on it."""
        context = self._context
        if context.settings.tls_required and not visitor.is_encrypted:
            return REJECT
        if context.authority.certificate(user, visitor.address):
            return REJECT
        method = context.authority.method(user, visitor.address)
        if method == TRUST and is_loopback(visitor.address) and not visitor.is_local:
            return SCRAM  # the browser is elsewhere
        return method

    def _may_log_in(self, user: str) -> bool:
        store = self._context.registry.role_store
        role = None if store is None else store.get(user)
        return role is None or role.can_login

    def _proof(self, user: str, evidence: Evidence) -> str:
        """What a login rests on beside the rules: the password, as far as one was given."""
        store = self._context.registry.role_store
        role = None if store is None else store.get(user)
        ident = "" if role is None else role.ident
        if evidence != "password":
            return ident
        verifier = self._context.authority.verifier(user)
        text = "" if verifier is None else verifier.text()
        return hashlib.sha256(f"{ident}\0{text}".encode()).hexdigest()

    def record(self, event: str, visitor: Visitor, user: str, database: str, sqlstate: str = "") -> None:
        """Write it to the audit log. SqlError 58030 where a login cannot be recorded: it is none then."""
        if sqlstate:
            logger.info(
                "a login is refused", extra={"user": user, "address": visitor.address, "sqlstate": sqlstate}
            )
        auditor = self._context.registry.auditor
        if auditor is None:
            return
        fields: dict[str, object] = {
            "user": user[:_MAX_NAME_CHARS],
            "database": database,
            "address": visitor.address,
            "tls": visitor.is_encrypted,
            "door": "console",
        }
        if sqlstate:
            fields["sqlstate"] = sqlstate
        try:
            auditor.event("login", event, fields)
        except SqlError:
            if event == "login":
                raise
            logger.error("a refusal is not in the audit log")
