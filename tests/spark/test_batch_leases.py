"""Leases on the log: renewed while a task reads, and their end told before anything is read."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from herdpy.rpc.address import GrpcAddress
from herdpy_spark import batch
from herdpy_spark.access import AccessError, TablespaceServers
from herdpy_spark.batch.rows import BatchLogLease, LapsedError
from herdpy_spark.options import OptionError, Options
from herdpy_sql.catalog import Column, KeyPart, Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.types import INTEGER


class Asked(TablespaceServers):
    """Servers that note each call, and answer as they are set up to."""

    def __init__(self, error: AccessError | None = None) -> None:
        super().__init__("t", [GrpcAddress("127.0.0.1")])
        self.error = error
        self.calls = 0
        self.often = threading.Event()

    def call(self, do: Any, places: Any = ()) -> Any:
        self.calls += 1
        if self.calls >= 5:
            self.often.set()
        if self.error is not None:
            raise self.error


def test_a_lease_is_renewed_as_long_as_a_task_reads():
    servers = Asked()
    with BatchLogLease(servers, "id", "t", 0.03).held():
        assert servers.often.wait(60)
    last = servers.calls
    assert not [one for one in threading.enumerate() if one.name == "herdpy-lease"]
    assert servers.calls == last


def test_a_lease_that_is_over_is_told_before_anything_is_read():
    lease = BatchLogLease(Asked(AccessError("not there", is_gone=True)), "id", "t", 600.0)
    with pytest.raises(LapsedError, match="Make the DataFrame again"), lease.held():
        pytest.fail("it was read")


def test_servers_that_are_away_do_not_stop_a_reading_of_the_log():
    with BatchLogLease(Asked(AccessError("away", is_transient=True)), "id", "t", 600.0).held():
        pass


def test_an_error_of_the_reading_is_its_own():
    with pytest.raises(ZeroDivisionError), BatchLogLease(Asked(), "id", "t", 600.0).held():
        raise ZeroDivisionError


def test_a_release_that_reaches_no_server_is_no_error():
    servers = Asked(AccessError("away", is_transient=True))
    BatchLogLease(servers, "id", "t", 600.0).release()
    assert servers.calls == 1


class Kept:
    """A state of one table that says whether it was released."""

    def __init__(self, definition: bytes) -> None:
        self.definitions = (definition,)
        self.is_released = False

    def release(self) -> None:
        self.is_released = True


@pytest.mark.parametrize("wanted", ["id", "other"])
def test_a_state_is_released_when_no_dataframe_can_be_made_of_it(monkeypatch, wanted):
    kept = Kept(encode_table(Table(1, "t", (Column("id", INTEGER, True),), (KeyPart(0),), "t_pkey")))
    monkeypatch.setattr(batch, "find", lambda _options: None)
    monkeypatch.setattr(batch, "_rows_of_table", lambda *_: kept)
    schema = StructType([StructField(wanted, IntegerType())])
    options = Options.parse({"url": "herdpy://h/t", "table": "t"})
    with nullcontext() if wanted == "id" else pytest.raises(OptionError):
        batch.batch_reader(options, schema)
    assert kept.is_released == (wanted == "other")
