"""The gate that every call passes: who makes it, whether he may, and how it ends.

An interceptor around all services. Nothing of a request is looked at before its caller is judged: even
taking it apart waits. Errors become status codes here, so that services raise SqlError as everything
below them does. A call that streams runs in a task of its own, which ends with the call or the server.

Who makes a call: the role and its password out of the metadata, checked by the server's rules, which are
those of PostgreSQL's protocol. A password travels as it is, so one is taken over TLS or from this machine
only. Checking one takes milliseconds, by intention, and happens in a thread; what was found right is
remembered by a digest with a key of this process, until the role's verifier changes. A node of the same
cluster proves that it is one, and needs no rule (``cluster.secret``).
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
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError

from herdpy_server.cluster.secret import GOOD_FOR_S, SCHEME, NodeSecret
from herdpy_server.pgwire.authentication import REJECT, SCRAM, Authority, is_loopback, no_such_user
from herdpy_server.roles.effective_role import EffectiveRole, EffectiveRoles, unlimited_role
from herdpy_server.roles.passwords import Verifier
from herdpy_server.roles.role import RoleStore
from herdpy_server.service.calls import going_down, refuse, too_many
from herdpy_server.sessions.identity import Auditor
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
        effective_roles: of the roles. ``auditor``: records calls; None: nobody does.
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

    def record_event(self, kind: str, event: str, **fields: object) -> None:
        """Record what a call does. SqlError 58030: it cannot be recorded, so it may not be done."""
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


HEALTH = "grpc.health.v1.Health"
REFLECTION = "grpc.reflection.v1alpha.ServerReflection"
MAX_OPEN_STREAMS = 50
"""Streams of callers who need not say who they are."""

Context = Any
Handler = Any


class Gate(grpc.aio.ServerInterceptor):
    """Judges calls, and counts them.

    Attributes:
        stopping: set when the server begins to go down: streams without an end of their own end.
        ended: set when its patience is over: all end.
        idle: set while no call is under way.
    """

    def __init__(self, callers: Callers, needs: dict[str, Callable[[Caller], bool]]) -> None:
        """``needs`` says by service who may call it; services that are not there are for nobody."""
        self._callers = callers
        self._needs = needs
        self.stopping = asyncio.Event()
        self.ended = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._calls = 0
        self._open_streams = 0

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Handler]], handler_call_details: Any
    ) -> Handler:
        """See grpc.aio.ServerInterceptor."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        service = handler_call_details.method.rpartition("/")[0].lstrip("/")
        if handler.request_streaming and not handler.response_streaming:
            behaviour = self._collecting(service, handler.stream_unary)
            return grpc.stream_unary_rpc_method_handler(
                behaviour, handler.request_deserializer, handler.response_serializer
            )
        if handler.request_streaming:
            made = grpc.stream_stream_rpc_method_handler
            behaviour = self._stream(service, handler.stream_stream, None)
            return made(behaviour, handler.request_deserializer, handler.response_serializer)
        if handler.response_streaming:
            behaviour = self._stream(service, handler.unary_stream, handler.request_deserializer)
            return grpc.unary_stream_rpc_method_handler(behaviour, None, handler.response_serializer)
        behaviour = self._unary(service, handler.unary_unary, handler.request_deserializer)
        return grpc.unary_unary_rpc_method_handler(behaviour, None, handler.response_serializer)

    def _unary(self, service: str, inner: Any, read: Any) -> Any:
        async def answer(data: bytes, context: Context) -> Any:
            async with self._errors_to_caller(service, context):
                await self._enter(service, context)
                return await inner(_message(read, data), context)

        return answer

    def _collecting(self, service: str, inner: Any) -> Any:
        async def answer(requests: Any, context: Context) -> Any:
            async with self._errors_to_caller(service, context):
                await self._enter(service, context)
                return await _until(self.ended, inner(requests, context))

        return answer

    def _stream(self, service: str, inner: Any, read: Any) -> Any:
        end = self.stopping if service == REFLECTION else self.ended

        async def send(request: Any, context: Context) -> None:
            given = inner(request if read is None else _message(read, request), context)
            if isinstance(given, AsyncIterator):
                async with aclosing(given) as answers:  # type: ignore[type-var]
                    async for answer in answers:
                        await context.write(answer)
            else:
                await given

        async def answer(request: Any, context: Context) -> None:
            async with self._errors_to_caller(service, context):
                await self._enter(service, context)
                is_open = service == HEALTH
                if is_open and self._open_streams >= MAX_OPEN_STREAMS:
                    raise too_many("watchers", MAX_OPEN_STREAMS)
                self._open_streams += is_open
                try:
                    await _until(end, send(request, context))
                finally:
                    self._open_streams -= is_open

        return answer

    async def _enter(self, service: str, context: Context) -> None:
        """SqlError 28000, 28P01 or 42501 when this caller may not make this call."""
        if service == HEALTH:  # probes have no roles, and learn one bit
            return
        if self.ended.is_set():
            raise going_down()
        try:
            caller = await self._callers.judge(context)
        except SqlError as error:
            logger.info("a call of %s from %s is refused: %s", service, context.peer(), error.message)
            self._record_event("login", "refused", service, context, sqlstate=error.sqlstate)
            raise
        CALLER.set(caller)
        needed = self._needs.get(service)
        if needed is None or not needed(caller):
            raise SqlError("42501", f'role "{caller.user}" may not call {service}')
        self._record_event("call", "call", service, context, user=caller.user)

    def _record_event(self, kind: str, event: str, service: str, context: Context, **fields: object) -> None:
        """Record it. SqlError 58030: it cannot be recorded."""
        self._callers.record_event(kind, event, service=service, address=context.peer(), **fields)

    @asynccontextmanager
    async def _errors_to_caller(self, service: str, context: Context) -> AsyncIterator[None]:
        """A call: it ends as the error of the block says; what ends it already goes on as it is."""
        self._calls += 1
        self.idle.clear()
        try:
            yield
        except SqlError as error:
            await refuse(context, self._refused(error, service, context))
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception:
            logger.exception("a call of %s failed", service)
            await refuse(context, SqlError("XX000", "internal error; see the server's log"))
        finally:
            self._calls -= 1
            if not self._calls:
                self.idle.set()

    def _refused(self, error: SqlError, service: str, context: Context) -> SqlError:
        """The error itself; that a caller may not make a call is recorded first."""
        caller = CALLER.get(None)
        if error.sqlstate == "42501" and caller is not None:
            fields = {"user": caller.user, "sqlstate": error.sqlstate, "reason": error.message}
            try:
                self._record_event("call", "refused", service, context, **fields)
            except SqlError as untold:
                return untold
        return error


def _message(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except DecodeError as error:
        raise SqlError("08P01", f"the request cannot be read: {error}") from None


async def _until(end: asyncio.Event, work: Any) -> Any:
    """Let work come to its end, and give what it does; SqlError 57P01 when ``end`` is set before."""
    task = asyncio.ensure_future(work)
    over = asyncio.ensure_future(end.wait())
    try:
        await asyncio.wait({task, over}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise going_down()
        return task.result()
    finally:
        over.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # seen: the call has ended for another reason
