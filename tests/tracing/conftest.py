"""A collector, and a server that traces to it, for all tests of a file."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.collector import Collector, Tree
from tests.support.server_process import RunningServer


@dataclass
class Context:
    """A trace of a client of its own making."""

    trace_id: str
    span_id: str = "00f067aa0ba902b7"

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"

    def on(self, sql: str) -> str:
        """A statement that is part of it."""
        return f"{sql} /*traceparent='{self.traceparent}'*/"


@pytest.fixture
def context() -> Context:
    return Context(secrets.token_hex(16))


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[RunningServer]:
    """It records what its clients want, and nothing else."""
    given = ["--set", f"tracing.endpoint={collector.endpoint}", "--set", "tracing.service_name=shop-db"]
    running = RunningServer(tmp_path_factory.mktemp("traced") / "data", *given).ready()
    yield running
    running.close()


@pytest.fixture
def client(server: RunningServer) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with server.connect(autocommit=True) as connection:
        yield connection


def statement(tree: Tree, kind: str) -> str:
    """The name of a statement's span."""
    return next(one.name for one in tree.spans if one.name.startswith(kind))
