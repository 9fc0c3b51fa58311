"""A gRPC server of the service Loads whose answers a test writes down; on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from herdpy.rpc import loads_pb2 as pb
from herdpy.rpc import loads_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.writing.staging import LoadLoop


async def refuse(
    context: Any, code: grpc.StatusCode, sqlstate: str, message: str, **more: str | bytes
) -> None:
    """End a call as HerdPy's servers do."""
    named = tuple((name.replace("_", "-"), value) for name, value in more.items())
    await context.abort(code, message, (("sqlstate", sqlstate), *named))


class ScriptedLoads(loads_pb2_grpc.LoadsServicer):
    """Each of ``answers``, by the call's name, is called with the request and the context.

    Attributes:
        asked: every call's name and request, in order.
        streams: the chunks of each stream that was staged.
    """

    def __init__(self, **answers: Callable[[Any, Any], Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.streams: list[list[Any]] = []

    async def _answer(self, name: str, request: Any, context: Any) -> Any:
        self.asked.append((name, request))
        answer = self.answers[name](request, context)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def Begin(self, request: Any, context: Any) -> Any:
        return await self._answer("Begin", request, context)

    async def Abort(self, request: Any, context: Any) -> Any:
        return await self._answer("Abort", request, context)

    async def Publish(self, request: Any, context: Any) -> Any:
        for message in await self._answer("Publish", request, context):
            yield message

    async def Stage(self, chunks: Any, context: Any) -> Any:
        stream: list[Any] = []
        self.streams.append(stream)
        async for chunk in chunks:
            stream.append(chunk)
            if "Stage" in self.answers:
                await self._answer("Stage", chunk, context)
        data = b"".join(chunk.data for chunk in stream)
        return pb.StagedFile(
            id=f"file-{len(self.streams)}",
            size_bytes=len(data),
            crc32c=stream[-1].end.crc32c,
            rows=stream[-1].end.rows,
        )


class LoadsServer:
    """``with LoadsServer(servicer) as place``."""

    def __init__(self, servicer: ScriptedLoads) -> None:
        self._servicer = servicer
        self._loop = LoadLoop()

    async def _start(self) -> int:
        self._server = grpc.aio.server()
        loads_pb2_grpc.add_LoadsServicer_to_server(self._servicer, self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port

    def __enter__(self) -> GrpcAddress:
        return GrpcAddress("127.0.0.1", self._loop.run(self._start()))

    def __exit__(self, *exc_info: object) -> None:
        self._loop.run(self._server.stop(None))
        self._loop.close()
