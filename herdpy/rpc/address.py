"""Where a server's gRPC services are, who calls (``grpc://role:password@host:8481``), and refusals as errors.

``grpcs`` is TLS. Everybody who calls HerdPy's services from Python makes his channel here.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import grpc

TRANSIENT = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    }
)
"""Codes of a connection that broke, or of a server that goes down or comes up."""


class RemoteError(Exception):
    """A call that failed.

    Attributes:
        code: gRPC's status.
        sqlstate: the server's; 08006 where it did not say one, which is mostly a connection that broke.
        message, detail, hint: what it said.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        sqlstate: str,
        message: str,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.hint = hint

    @classmethod
    def of(cls, error: Any) -> RemoteError:
        """The error of a ``grpc.RpcError``, with what its trailing metadata say."""
        trailers = dict(error.trailing_metadata() or ())
        texts = [trailers.get(name) for name in ("detail-bin", "hint-bin")]
        detail, hint = (None if text is None else bytes(text).decode(errors="replace") for text in texts)
        return cls(error.code(), str(trailers.get("sqlstate", "08006")), error.details() or "", detail, hint)

    @property
    def is_transient(self) -> bool:
        """Whether the same call may well succeed later."""
        return self.code in TRANSIENT and self.sqlstate[:2] not in {"XX", "58"}


class SnapshotDamagedError(Exception):
    """What arrived, again and again, is not what was sent, or the snapshot is not what it was."""


# The address.

DEFAULT_PORT = 8481
_OPTIONS = [
    # A peer that is gone without a word is noticed; the server allows pings as often.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", 64 << 20),
]

Metadata = tuple[tuple[str, str], ...]


def basic_authorization(user: str, password: str | None) -> str:
    """The value of an authorization header by name and password."""
    text = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
    return f"Basic {text}"


@dataclass(frozen=True, slots=True)
class GrpcAddress:
    """An address of gRPC services.

    Attributes:
        host, port: where it listens.
        user, password: who calls; the server's rules say whether they are needed.
        tls: whether the connection is TLS.
        ca: a PEM file with those that may have signed the server's certificate; None: those known here.
        proof: makes what each call carries instead of role and password; None from it: nothing.
    """

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca: Path | None = None
    proof: Callable[[], str | None] | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, url: str, *, password: str | None = None, ca: Path | None = None) -> GrpcAddress:
        """The place that a URL names; ValueError, without the password, when it names none.

        Args:
            password: used when the URL has none.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or DEFAULT_PORT
        except ValueError as error:
            raise ValueError(f"not the URL of a server: {error}") from None
        if parts.scheme not in {"grpc", "grpcs"} or not parts.hostname:
            raise ValueError("the URL of a server is grpc://host:port or, with TLS, grpcs://host:port")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError("the URL of a server has nothing after its port")
        if ca is not None and parts.scheme != "grpcs":
            raise ValueError("certificates are for grpcs://")
        user = unquote(parts.username) if parts.username else None
        given = unquote(parts.password) if parts.password else password
        return cls(parts.hostname, port, user, given, parts.scheme == "grpcs", ca)

    @property
    def target(self) -> str:
        """As gRPC names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def metadata(self) -> Metadata:
        """What a call carries that is made now."""
        proof = None if self.proof is None else self.proof()
        if proof is not None:
            return (("authorization", proof),)
        if self.user is None:
            return ()
        return (("authorization", basic_authorization(self.user, self.password)),)

    def tls_context(self) -> ssl.SSLContext | None:
        """What encrypts other connections to the same host; None without TLS. Errors as ``channel``."""
        return ssl.create_default_context(cafile=self.ca) if self.tls else None

    def channel(self) -> grpc.aio.Channel:
        """A new channel, for the running loop; close it. OSError when ``ca`` cannot be read."""
        if not self.tls:
            return grpc.aio.insecure_channel(self.target, options=_OPTIONS)
        return grpc.aio.secure_channel(self.target, self._credentials(), options=_OPTIONS)

    def blocking_channel(self) -> grpc.Channel:
        """A new channel for programs without a loop; close it. Errors as :meth:`channel`."""
        if not self.tls:
            return grpc.insecure_channel(self.target, options=_OPTIONS)
        return grpc.secure_channel(self.target, self._credentials(), options=_OPTIONS)

    def _credentials(self) -> grpc.ChannelCredentials:
        ca = None if self.ca is None else self.ca.read_bytes()
        return grpc.ssl_channel_credentials(root_certificates=ca)
