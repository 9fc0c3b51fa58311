"""Every server and every bookie dies at once, with its disk: what is lost is what the archive had not yet."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from herdpy.backup.archive import archive_end_of, read_entries, segments
from herdpy.backup.repository import Repository
from herdpy.dev import LocalCluster
from herdpy.log.entry import TransactionAssembler
from herdpy.log.lsn import START
from herdpy.log.records import Insert
from herdpy.testing.process import await_until
from tests.replica.replicas import PATIENCE_S, await_leader, connect, run

pytestmark = pytest.mark.soak  # a cluster of its own

INTERVAL_S = 2.0
SLACK_S = 3.0
"""How long writing a file may take here."""


def test_after_the_loss_of_everything_the_archive_lacks_one_interval(tmp_path: Path) -> None:
    repository_url = str(tmp_path / "repository")
    settings = {"backup.url": repository_url, "backup.archive_interval_s": INTERVAL_S}
    acknowledged: list[tuple[int, int]] = []
    with LocalCluster(tmp_path / "c", servers=3, bookies=3, server_settings=settings) as cluster:
        leader = await_leader(cluster)
        run(cluster, leader, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
        stop = threading.Event()

        def write() -> None:
            with connect(cluster, leader) as connection:
                for number in range(1_000_000):
                    if stop.is_set():
                        return
                    try:
                        connection.execute("INSERT INTO t VALUES (%s, %s)", (number, "x" * 50))
                    except Exception:  # noqa: BLE001 - whatever the death of a server looks like
                        return
                    acknowledged.append((number, time.time_ns() // 1000))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            repository = None

            def is_archived() -> bool:
                nonlocal repository
                try:
                    repository = repository or Repository.open(repository_url)
                except Exception:  # noqa: BLE001 - not there yet
                    return False
                logs = {name.split("/")[1] for name in repository.sizes("logs")}
                return any(len(segments(repository, log)) >= 3 for log in logs)

            assert await_until(is_archived, PATIENCE_S)
            members = [one.id for one in cluster.status().servers] + [
                one.id for one in cluster.status().bookies
            ]
            for one in members:
                cluster.kill(one)
            for one in members:
                cluster.wipe(one)
        finally:
            stop.set()
            writer.join()
    assert repository is not None
    (log_id,) = {name.split("/")[1] for name in repository.sizes("logs")}
    end, time_us = archive_end_of(repository, log_id)
    last = acknowledged[-1][1]
    assert (last - time_us) / 1e6 < INTERVAL_S + SLACK_S
    assembler = TransactionAssembler(START)
    archived = [
        (transaction, sum(isinstance(record, Insert) for record in transaction.records))
        for entry in read_entries(repository, log_id, START, crc=0, upto=end)
        for _, transaction in assembler.feed(entry)
    ]
    assert archived[-1][0].timestamp_us == time_us
    rows = sum(count for _, count in archived)
    lost = [number for number, _ in acknowledged if number >= rows]
    assert rows > 0
    assert all(at_us > time_us for number, at_us in acknowledged if number in lost)
    print(f"{len(lost)} of {len(acknowledged)} commits, {(last - time_us) / 1e6:.1f} s, are lost")
