"""A writer and driver of loads without Spark: the service Loads and ledgers, as anybody may use them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import grpc
import pyarrow as pa

from herdpy.bookkeeper import BookKeeper
from herdpy.dev import LocalCluster
from herdpy.log.bookkeeper import LedgerLogSettings
from herdpy.log.staging import StagedLedger
from herdpy.rpc import loads_pb2 as pb
from herdpy.rpc import loads_pb2_grpc

MODES = {
    "append": pb.LOAD_MODE_APPEND,
    "overwrite": pb.LOAD_MODE_OVERWRITE,
    "upsert": pb.LOAD_MODE_UPSERT,
    "ignore": pb.LOAD_MODE_IGNORE,
    "delete": pb.LOAD_MODE_DELETE,
}
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


def ipc_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Batches as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


class Loader:
    """Makes loads into the cluster's default tablespace by way of one of its servers."""

    def __init__(self, cluster: LocalCluster, server: str) -> None:
        """``server``: its id."""
        self._cluster = cluster
        (port,) = [one.grpc_port for one in cluster.status().servers if one.id == server]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS)
        self.stub: Any = loads_pb2_grpc.LoadsStub(self._channel)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._channel.close()

    def begin(self, load_id: str, table: str, mode: str, columns: Sequence[str]) -> Any:
        """The answer of Begin."""
        return self.stub.Begin(
            pb.BeginLoadRequest(load_id=load_id, table=table, mode=MODES[mode], columns=columns)
        )

    def stage(self, load_id: str, plan: Any, parts: Sequence[Sequence[pa.RecordBatch]]) -> list[Any]:
        """Parts in ledgers of their own, as LoadParts."""
        return asyncio.run(self._stage(load_id, plan.ledgers, parts))

    async def _stage(self, load_id: str, place: Any, parts: Sequence[Sequence[pa.RecordBatch]]) -> list[Any]:
        settings = LedgerLogSettings(
            tablespace=place.tablespace,
            ensemble=place.ensemble,
            write_quorum=place.write_quorum,
            ack_quorum=place.ack_quorum,
            strict=place.strict,
            password=place.password,
            max_entry_bytes=64 << 10,
        )
        found = []
        async with BookKeeper(f"zk://{place.zookeeper}{place.ledgers_root}") as bk:
            for batches in parts:
                ledger = await StagedLedger.create(
                    bk, settings, log_id=place.log_id, tablespace=place.tablespace, load_id=load_id
                )
                await ledger.write(ipc_stream(batches))
                part = await ledger.finish(sum(batch.num_rows for batch in batches))
                found.append(
                    pb.LoadPart(
                        ledger=pb.StagedLedger(
                            ledger_id=part.ledger_id,
                            last_entry_id=part.last_entry_id,
                            size_bytes=part.size_bytes,
                            crc32c=part.crc,
                            rows=part.rows,
                        )
                    )
                )
        return found

    def publish(self, load_id: str, table: str, mode: str, parts: Sequence[Any], table_id: int = 0) -> Any:
        """The outcome."""
        request = pb.PublishLoadRequest(
            load_id=load_id, table=table, mode=MODES[mode], table_id=table_id, parts=parts
        )
        *_told, last = self.stub.Publish(request)
        return last.outcome


def publish_by_whoever_leads(cluster: LocalCluster, *load: Any) -> Any:
    """As ``Loader.publish``, by whoever leads in the end; others refuse, or are gone."""
    deadline = time.monotonic() + 60.0
    while True:
        with Loader(cluster, cluster.await_leader()) as loader:
            try:
                return loader.publish(*load)
            except grpc.RpcError as error:
                state = dict(error.trailing_metadata() or ()).get("sqlstate", "08006")
                if state not in ("08006", "25006", "40001", "57P03", "08007") or time.monotonic() > deadline:
                    raise


def schema_of(plan: Any) -> pa.Schema:
    """What is to be staged."""
    return pa.ipc.read_schema(pa.py_buffer(plan.arrow_schema))


def counts(outcome: Any) -> tuple[int, int, int, int]:
    """Inserted, updated, deleted, skipped."""
    return outcome.inserted, outcome.updated, outcome.deleted, outcome.skipped
