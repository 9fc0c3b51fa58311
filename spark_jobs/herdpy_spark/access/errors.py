"""What goes wrong on the way to a database, in words for the author of a job. Below the rest of access."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from herdpy.rpc.errors import RemoteError


class AccessError(Exception):
    """A database that cannot be reached, or that says no.

    Attributes:
        sqlstate: the server's; 08006 where none said one.
        is_transient: whether the same may well succeed later, or with another server.
        is_gone: what was asked for is not there, or not any more.
    """

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str = "08006",
        is_transient: bool = False,
        is_gone: bool = False,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.is_transient = is_transient
        self.is_gone = is_gone

    def __reduce__(self) -> tuple[type[AccessError], tuple[str]]:
        return type(self), (str(self),)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Turns gRPC's errors into AccessError, with the place that was asked."""
    try:
        yield
    except grpc.RpcError as broken:
        error = RemoteError.of(broken)
        hint = f" ({error.hint})" if error.hint else ""
        raise AccessError(
            f"{where}: {error.message}{hint} [{error.sqlstate}]",
            sqlstate=error.sqlstate,
            is_transient=error.is_transient or error.code is grpc.StatusCode.RESOURCE_EXHAUSTED,
            is_gone=error.code is grpc.StatusCode.NOT_FOUND,
        ) from broken
