"""What a gRPC server answers when it refuses, as exceptions."""

from __future__ import annotations

from typing import Any

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
