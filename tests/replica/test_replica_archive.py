"""Whoever leads archives the log: over failovers, pauses and trimming nothing is missing or wrong."""

from __future__ import annotations

from typing import Any

from herdpy.backup.archive import archived_in, newest_of, read_entries, read_staged, segments
from herdpy.backup.repository import Repository
from herdpy.backup.staged_parts import StagedParts
from herdpy.dev import LocalCluster
from herdpy.log.detached import LogAddress, LogLedgers, opened
from herdpy.log.entry import LoggedTransaction, TransactionAssembler, entry_bytes
from herdpy.log.lsn import LSN, START
from herdpy.log.records import Insert
from herdpy.testing.process import await_until
from tests.replica.replicas import PATIENCE_S, await_leader, load, run
from tests.replica.test_replica_loads import ROWS, _load


def address_of(cluster: LocalCluster) -> LogAddress:
    return LogAddress("herdpy", zookeeper=cluster.zookeeper, list_path="/herdpy/tablespaces/herdpy/ledgers")


def repository_of(cluster: LocalCluster) -> Repository:
    return Repository.open(str(cluster.directory.parent / "repository"))


def await_archived(cluster: LocalCluster, upto: LSN) -> None:
    """Everything up to there is in the repository."""
    repository = repository_of(cluster)
    with opened(address_of(cluster)) as ledgers:
        log_id = ledgers.state().log_id

        def is_there() -> bool:
            return archived_in(segments(repository, log_id), ledgers.state()) >= upto

        assert await_until(is_there, PATIENCE_S), f"{upto} is not archived"


def first_of(repository: Repository, log_id: str) -> LSN:
    """The position before the first segment, which the log began with."""
    first = segments(repository, log_id)[0]
    assert first.first == 0
    return START


def check(cluster: LocalCluster, ledgers: LogLedgers) -> list[LoggedTransaction]:
    """The archive is one chain, and what the log has of it is the same there; its transactions."""
    repository, state = repository_of(cluster), ledgers.state()
    end = newest_of(segments(repository, state.log_id))
    assert end is not None
    found = {
        one.lsn: one
        for one in read_entries(repository, state.log_id, first_of(repository, state.log_id), crc=0, upto=end)
    }
    for entry in ledgers.read(ledgers.state().base, min(end, ledgers.confirmed())):
        assert entry_bytes(found[entry.lsn]) == entry_bytes(entry)
    assembler = TransactionAssembler(START)
    return [one for entry in found.values() for _, one in assembler.feed(entry)]


def applied(cluster: LocalCluster, node: str) -> LSN:
    ((found,),) = run(cluster, node, "SELECT applied FROM herdpy.log_status")
    return LSN.parse(found)


def inserted(transactions: list[LoggedTransaction]) -> int:
    return sum(isinstance(record, Insert) for one in transactions for record in one.records)


def archive_row(cluster: LocalCluster, node: str) -> dict[str, Any]:
    ((state, archived, gaps),) = run(cluster, node, "SELECT state, archived, gaps FROM herdpy.archive")
    return {"state": state, "archived": archived, "gaps": gaps}


def test_a_new_leader_goes_on_where_the_archive_ends(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE TABLE archived (id INT PRIMARY KEY, v TEXT)")
    with load(cluster, "archived") as made:
        assert made.going.wait(PATIENCE_S)
    cluster.kill(leader)  # with its archiving process, and entries that are not archived
    new = await_leader(cluster, other_than=leader)
    try:
        with load(cluster, "archived") as more:
            assert more.going.wait(PATIENCE_S)
        end = applied(cluster, new)
        await_archived(cluster, end)
        assert run(cluster, new, "SELECT gaps FROM herdpy.archive") == [(0,)]
        with opened(address_of(cluster)) as ledgers:
            transactions = check(cluster, ledgers)
        assert inserted(transactions) >= len(made.acknowledged) + len(more.acknowledged)
    finally:
        cluster.start(leader)
    with opened(address_of(cluster)) as ledgers:  # what is archived is trimmed
        assert await_until(lambda: ledgers.state().base > START, PATIENCE_S)
    run(cluster, await_leader(cluster), "DROP TABLE archived")


def test_a_leader_that_was_paused_archives_nothing_wrong(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE TABLE paused (id INT PRIMARY KEY, v TEXT)")
    with load(cluster, "paused") as made:
        assert made.going.wait(PATIENCE_S)
    cluster.pause(leader)  # its archiving process goes on, and both archive the ledgers that come
    try:
        new = await_leader(cluster, other_than=leader)
        with load(cluster, "paused") as more:
            assert more.going.wait(PATIENCE_S)
    finally:
        cluster.resume(leader)
    await_archived(cluster, applied(cluster, new))
    with opened(address_of(cluster)) as ledgers:
        check(cluster, ledgers)
    run(cluster, await_leader(cluster), "DROP TABLE paused")


def test_rows_of_loads_are_archived_before_the_entry_that_names_them(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    run(cluster, leader, "DROP TABLE IF EXISTS loaded", "CREATE TABLE loaded (id INT PRIMARY KEY, v TEXT)")
    _load(cluster, leader, "archived")
    await_archived(cluster, applied(cluster, leader))
    repository = repository_of(cluster)
    with opened(address_of(cluster)) as ledgers:
        log_id = ledgers.state().log_id
    named = StagedParts()
    parts = [
        part
        for entry in read_entries(repository, log_id, first_of(repository, log_id))
        for part in named.of(entry)
    ]
    assert sum(part.rows for part in parts) >= ROWS
    for part in parts:
        assert sum(map(len, read_staged(repository, log_id, part))) == part.size_bytes
    run(cluster, leader, "DROP TABLE loaded")
