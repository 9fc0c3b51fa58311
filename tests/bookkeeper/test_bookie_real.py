"""The handle against real bookies: every operation in the clear, then TLS and SASL as bookies do them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.bookie import UNAVAILABLE, Bookie, BookiePool, SaslDigestMd5
from herdpy.bookkeeper.digest import Digest, DigestType, master_key
from herdpy.bookkeeper.errors import (
    AuthenticationError,
    BookieUnavailableError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    error_of,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.entries import AddEncoder
from herdpy.bookkeeper.wire.protocol import ReplyStatus
from herdpy.testing.cluster import BookKeeperCluster, ClusterView
from herdpy.testing.tls import Certificates
from tests.bookkeeper.scripted_bookie import Op, on_both_loops, run

PASSWORD = b"password"
USER, USER_PASSWORD = "bookkeeper-client", 'quo"ted'
PATIENCE_S = 60.0
PATIENT: dict[str, float] = {"request_timeout_s": PATIENCE_S, "connect_timeout_s": PATIENCE_S}


class Ledger:
    """Adds to one bookie, as a writer would.

    Args:
        number: its id; None: one that is not in the metadata. Bookies do not ask, and collect it as garbage
            when they look next, so nothing of it may be read.
    """

    def __init__(self, pool: BookiePool, bookie: Bookie, number: int | None = None) -> None:
        self.id = random.randrange(2**40, 2**41) if number is None else number
        self.key = master_key(PASSWORD)
        self.digest = Digest.of(DigestType.CRC32C, PASSWORD)
        self._adds = AddEncoder(self.id, self.key, self.digest)
        self._pool = pool
        self._bookie = bookie

    def add(self, entry_id: int, data: bytes = b"data") -> Op:
        op = Op()
        txn = self._pool.next_txn()
        self._bookie.send_add(
            txn, self._adds.encode(txn, entry_id, entry_id - 1, len(data) * (entry_id + 1), data), op
        )
        return op


async def in_metadata(cluster: ClusterView) -> int:
    """The id of a ledger that bookies do not collect."""
    async with BookKeeper(cluster.uri) as client:
        return (await client.create_ledger(1, 1, 1)).ledger_id


@on_both_loops
def test_every_operation(bookkeeper_cluster: ClusterView, loop: str) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings())
        bookie = pool.get(bookkeeper_cluster.bookie_ids[0])
        ledger = Ledger(pool, bookie, await in_metadata(bookkeeper_cluster))
        with pytest.raises(NoSuchLedgerError):
            await bookie.read(ledger.id, 0)
        ops = [ledger.add(entry_id, b"x" * 2000) for entry_id in range(300)]
        assert {await op.status() for op in ops} == {ReplyStatus.EOK}
        assert bookie.metrics.writes < 20

        reply = await bookie.read(ledger.id, 7)
        assert reply.body is not None
        assert ledger.digest.open(reply.body, ledger.id, 7).data == b"x" * 2000
        last = await bookie.read(ledger.id)
        assert last.body is not None
        assert ledger.digest.open(last.body, ledger.id, None).entry_id == 299
        with pytest.raises(NoSuchEntryError):
            await bookie.read(ledger.id, 300)
        assert await bookie.list_entries(ledger.id) == list(range(300))

        await bookie.write_lac(ledger.id, ledger.key, ledger.digest.seal_lac(ledger.id, 299))
        lac = await bookie.read_lac(ledger.id)
        assert lac.lac_body is not None
        assert ledger.digest.open_lac(lac.lac_body, ledger.id) == 299
        await bookie.force(ledger.id)
        info = await bookie.info()
        assert 0 < (info.free_bytes or 0) <= (info.total_bytes or 0)

        poll = asyncio.create_task(bookie.long_poll(ledger.id, 299, 20))
        await ledger.add(300).status()
        await bookie.write_lac(ledger.id, ledger.key, ledger.digest.seal_lac(ledger.id, 300))
        assert (await poll).max_lac == 300
        assert (await bookie.long_poll(ledger.id, 300, 0.05)).body is None

        with pytest.raises(UnauthorizedError):
            await bookie.read(ledger.id, -1, fence_key=master_key(b"another"))
        fencing = await bookie.read(ledger.id, -1, fence_key=ledger.key)
        assert fencing.body is not None
        assert ledger.digest.open(fencing.body, ledger.id, None).entry_id == 300
        fenced = await ledger.add(301).status()
        assert isinstance(error_of(fenced), LedgerFencedError)
        assert bookie.metrics.unknown_replies == bookie.metrics.malformed_frames == 0
        assert bookie.metrics.connections == 1
        pool.close()

    run(test, loop)


def test_a_bookie_that_authenticates_nobody_takes_a_client_that_would(
    bookkeeper_cluster: ClusterView,
) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings(auth=SaslDigestMd5(USER, USER_PASSWORD)))
        bookie = pool.get(bookkeeper_cluster.bookie_ids[0])
        assert await Ledger(pool, bookie).add(0).status() == ReplyStatus.EOK
        pool.close()

    run(test)


def test_a_bookie_without_tls_refuses_it(bookkeeper_cluster: ClusterView, tmp_path: Path) -> None:
    async def test() -> None:
        pool = BookiePool(ClientSettings(tls=Certificates.issue(tmp_path).client_context()))
        with pytest.raises(AuthenticationError, match="refuses TLS"):
            await pool.get(bookkeeper_cluster.bookie_ids[0]).info()
        pool.close()

    run(test)


def test_tls_and_sasl(own_cluster: Callable[..., BookKeeperCluster], tmp_path: Path) -> None:
    certificates = Certificates.issue(tmp_path)
    jaas = tmp_path / "jaas.conf"
    escaped = USER_PASSWORD.replace('"', '\\"')
    jaas.write_text(
        "Bookie { org.apache.zookeeper.server.auth.DigestLoginModule required "
        f'user_{USER}="{escaped}"; }};\n'
    )
    cluster = own_cluster(
        1,
        root=tmp_path / "cluster",
        tls=certificates,
        configuration={
            "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory",
            "gcWaitTime": 3_600_000,  # its ledgers are not in the metadata
        },
        java_options=(f"-Djava.security.auth.login.config={jaas}",),
    )
    (bookie_id,) = cluster.bookie_ids
    user = SaslDigestMd5(USER, USER_PASSWORD)
    trusted = certificates.client_context()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    async def accepted() -> None:
        pool = BookiePool(ClientSettings(**PATIENT, tls=trusted, auth=user))
        bookie = pool.get(bookie_id)
        ledger = Ledger(pool, bookie)
        data = random.Random(6).randbytes(1_000_000)
        ops = [ledger.add(entry_id, data) for entry_id in range(8)]
        assert [await op.status() for op in ops] == [ReplyStatus.EOK] * 8, bookie.failure
        reply = await bookie.read(ledger.id, 7)
        assert reply.body is not None
        assert ledger.digest.open(reply.body, ledger.id, 7).data == data
        assert bookie.metrics.connections == 1
        pool.close()

    async def in_the_clear() -> None:
        pool = BookiePool(ClientSettings(**PATIENT, auth=user))
        assert await Ledger(pool, pool.get(bookie_id)).add(0).status() == ReplyStatus.EOK
        pool.close()

    async def wrong_authority() -> None:
        other = Certificates.issue(elsewhere).client_context()
        pool = BookiePool(ClientSettings(**PATIENT, tls=other, auth=user))
        with pytest.raises(AuthenticationError, match="certificate"):
            await pool.get(bookie_id).info()
        pool.close()

    async def without_authentication() -> None:
        pool = BookiePool(ClientSettings(**PATIENT, tls=trusted))
        bookie = pool.get(bookie_id)
        assert await Ledger(pool, bookie).add(0).status() == ReplyStatus.EUA
        with pytest.raises(UnauthorizedError):
            await bookie.info()
        pool.close()

    async def wrong_password() -> None:
        settings = ClientSettings(tls=trusted, auth=SaslDigestMd5(USER, "guess"), connect_timeout_s=4.0)
        pool = BookiePool(settings)
        bookie = pool.get(bookie_id)
        op = Ledger(pool, bookie).add(0)
        with pytest.raises((AuthenticationError, BookieUnavailableError), match=r"credentials|authenticat"):
            await bookie.info()
        assert await op.status() == UNAVAILABLE
        pool.close()

    for loop in ("asyncio", "uvloop"):
        run(accepted, loop)
        run(wrong_authority, loop)
    run(in_the_clear)
    run(without_authentication)
    run(wrong_password)
