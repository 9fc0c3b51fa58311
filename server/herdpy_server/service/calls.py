"""What the services' calls have in common: errors as a caller gets them, and positions in requests.

SQLSTATEs become gRPC's status codes. Besides code and message a caller gets trailing metadata: ``sqlstate``,
``detail-bin``, ``hint-bin``, of some errors ``where-bin`` (which row it is) and ``leader-grpc`` (who can do
it). A position is what a caller has seen elsewhere, and wants to find here.
"""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from herdpy.rpc.positions import lsn_of
from herdpy_server.serving.node import Served
from herdpy_sql.errors import SqlError

_LONGEST = 1000  # characters of a text; headers are limited
_BY_STATE = {
    "28000": grpc.StatusCode.UNAUTHENTICATED,
    "28P01": grpc.StatusCode.UNAUTHENTICATED,
    "42501": grpc.StatusCode.PERMISSION_DENIED,
    "42704": grpc.StatusCode.NOT_FOUND,
    "42703": grpc.StatusCode.NOT_FOUND,
    "42P01": grpc.StatusCode.NOT_FOUND,
    "3D000": grpc.StatusCode.NOT_FOUND,
    "22003": grpc.StatusCode.OUT_OF_RANGE,
    "57014": grpc.StatusCode.CANCELLED,
    "08007": grpc.StatusCode.UNKNOWN,
    "58P01": grpc.StatusCode.NOT_FOUND,
    "08P01": grpc.StatusCode.INVALID_ARGUMENT,
    "XX001": grpc.StatusCode.DATA_LOSS,
}
_BY_CLASS = {
    "08": grpc.StatusCode.UNAVAILABLE,
    "0A": grpc.StatusCode.UNIMPLEMENTED,
    "22": grpc.StatusCode.INVALID_ARGUMENT,
    "23": grpc.StatusCode.INVALID_ARGUMENT,
    "25": grpc.StatusCode.FAILED_PRECONDITION,
    "40": grpc.StatusCode.ABORTED,
    "42": grpc.StatusCode.INVALID_ARGUMENT,
    "53": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "54": grpc.StatusCode.INVALID_ARGUMENT,
    "55": grpc.StatusCode.FAILED_PRECONDITION,
    "57": grpc.StatusCode.UNAVAILABLE,
}


def code_of(error: SqlError) -> grpc.StatusCode:
    """The status code of an error; INTERNAL for classes that have none."""
    return _BY_STATE.get(error.sqlstate) or _BY_CLASS.get(error.sqlstate[:2], grpc.StatusCode.INTERNAL)


def trailers(error: SqlError) -> tuple[tuple[str, str | bytes], ...]:
    """What a caller gets of an error besides its code and message."""
    fields: list[tuple[str, str | bytes]] = [("sqlstate", error.sqlstate)]
    texts = (("detail-bin", error.detail), ("hint-bin", error.hint), ("where-bin", error.fields.get("where")))
    for name, text in texts:
        if text:
            fields.append((name, text[:_LONGEST].encode(errors="replace")))
    if (leader := error.fields.get("leader_grpc")) is not None:
        fields.append(("leader-grpc", leader))
    return tuple(fields)


async def refuse(context: grpc.aio.ServicerContext[Any, Any], error: SqlError) -> NoReturn:
    """End a call with an error."""
    await context.abort(code_of(error), error.message[:_LONGEST], trailers(error))
    raise AssertionError("abort returned")


def going_down() -> SqlError:
    """The error of callers whose call is ended because the server goes down."""
    return SqlError("57P01", "the call was ended: the server is shutting down")


def not_there(what: str) -> SqlError:
    """The error for a thing that is not there, or not any more."""
    return SqlError(
        "42704", f"there is no such {what}", hint="Its lease may be over, or somebody released it."
    )


def too_many(what: str, limit: int) -> SqlError:
    """The error for one more than there may be."""
    return SqlError(
        "53400", f"there are {limit} {what} already, which is the most there may be", hint="Try again later."
    )


async def reached(served: Served, request: Any) -> None:
    """Wait for a request's ``reached``, where it has one. SqlError 57P03 when that takes too long."""
    if request.HasField("reached"):
        await served.reached(lsn_of(request.reached))
