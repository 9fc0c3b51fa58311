"""A server's settings make an archive: what it shows, and that its end leaves nothing behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from herdpy.backup.archive import archive_end_of, read_entries
from herdpy.backup.manifest import read_log_record
from herdpy.backup.repository import Repository
from herdpy.log.ledger_list import FileLedgerList
from herdpy.log.lsn import START
from herdpy.testing.process import await_until
from tests.support.server_process import PATIENCE_S, RunningServer


def test_a_server_archives_shows_it_and_ends_with_nothing_left(tmp_path: Path) -> None:
    url = tmp_path / "repository"
    settings = ("--set", f"backup.url={url}", "--set", "backup.archive_interval_s=3600")
    server = RunningServer(tmp_path / "data", *settings).ready()
    try:
        connection = server.connect()
        assert await_until(
            lambda: connection.execute("SELECT archived FROM herdpy.archive").fetchall() != [(None,)],
            PATIENCE_S,
        )
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        row = connection.execute(
            "SELECT tablespace, node, state, url, lag_bytes > 0, gaps, problem FROM herdpy.archive"
        ).fetchone()
        assert row == ("default", None, "archiving", str(url), True, 0, None)
        metrics = server.get("/metrics")[1].splitlines()
        assert 'herdpy_archive_failing{tablespace="herdpy"} 0.0' in metrics
        assert 'herdpy_archive_gaps_total{tablespace="herdpy"} 0.0' in metrics
        connection.close()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    finally:
        server.close()
    state = FileLedgerList(str(tmp_path / "data" / "log")).read()
    assert state is not None
    repository = Repository.open(str(url))
    end, time_us = archive_end_of(repository, state.log_id)
    assert end == state.settled_end[0]
    assert time_us > 0
    assert [one.lsn for one in read_entries(repository, state.log_id, START, crc=0)][-1] == end
    assert read_log_record(repository, state.log_id).tablespace == "default"


@pytest.mark.soak
def test_a_server_without_its_repository_serves_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    settings = ("--set", f"backup.url={tmp_path}/file/repository", "--set", "backup.archive_interval_s=0.1")
    server = RunningServer(tmp_path / "data", *settings).ready()
    try:
        server.connect().execute("CREATE TABLE t (id INT PRIMARY KEY)")
        record = server.wait_for("the log is not archived, and is tried again")
        assert "Not a directory" in record["reason"]
        server.wait_for("the archive falls behind")
        server.wait_for_metric('herdpy_archive_failing{tablespace="herdpy"} 1.0')
        assert server.stop() == 0
    finally:
        server.close()
