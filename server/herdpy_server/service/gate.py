"""The gate that every call passes: who makes it, whether he may, and how it ends.

An interceptor around all services. Nothing of a request is looked at before its caller is judged: even
taking it apart waits. Errors become status codes here, so that services raise SqlError as everything
below them does. A call that streams runs in a task of its own, which ends with the call or the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from herdpy_server.service.caller import CALLER, Caller, Callers
from herdpy_server.service.calls import going_down, refuse, too_many
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.rpc")

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
    """

    def __init__(self, callers: Callers, needs: dict[str, Callable[[Caller], bool]]) -> None:
        """``needs`` says by service who may call it; services that are not there are for nobody."""
        self._callers = callers
        self._needs = needs
        self.stopping = asyncio.Event()
        self.ended = asyncio.Event()
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
            async with self._told(service, context):
                await self._enter(service, context)
                return await inner(_message(read, data), context)

        return answer

    def _collecting(self, service: str, inner: Any) -> Any:
        async def answer(requests: Any, context: Context) -> Any:
            async with self._told(service, context):
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
            async with self._told(service, context):
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
            self._tell("login", "refused", service, context, sqlstate=error.sqlstate)
            raise
        CALLER.set(caller)
        needed = self._needs.get(service)
        if needed is None or not needed(caller):
            raise SqlError("42501", f'role "{caller.user}" may not call {service}')
        self._tell("call", "call", service, context, user=caller.user)

    def _tell(self, kind: str, event: str, service: str, context: Context, **fields: object) -> None:
        """For the record. SqlError 58030 it cannot be told."""
        self._callers.tell(kind, event, service=service, address=context.peer(), **fields)

    @asynccontextmanager
    async def _told(self, service: str, context: Context) -> AsyncIterator[None]:
        """End the call as the error of the block says; what ends it already goes on as it is."""
        try:
            yield
        except SqlError as error:
            await refuse(context, self._refused(error, service, context))
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception:
            logger.exception("a call of %s failed", service)
            await refuse(context, SqlError("XX000", "internal error; see the server's log"))

    def _refused(self, error: SqlError, service: str, context: Context) -> SqlError:
        """The error itself, once it is told for the record if it is that the caller may not."""
        caller = CALLER.get(None)
        if error.sqlstate == "42501" and caller is not None:
            fields = {"user": caller.user, "sqlstate": error.sqlstate, "reason": error.message}
            try:
                self._tell("call", "refused", service, context, **fields)
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
