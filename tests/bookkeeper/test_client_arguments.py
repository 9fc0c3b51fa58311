"""What callers hand in is refused with a word of what would be right, before anything is sent."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

import pytest

from herdpy.bookkeeper import (
    BookKeeper,
    ClientSettings,
    ClosedClientError,
    NoSuchLedgerError,
    Outcome,
    UnknownLayoutError,
)
from herdpy.distribution import package_of
from herdpy.testing.model import ModelCluster


def in_model(program, **cluster):
    """Run ``program(bk, model)`` with a client of a model cluster."""
    model = ModelCluster(seed=1, **cluster)

    async def main():
        async with BookKeeper(znodes=model.znodes("client"), rng=random.Random(1), clock=lambda: 1.5) as bk:
            return await program(bk, model)

    return model.run(main)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"ensemble_size": 2, "write_quorum": 3},
            ValueError,
            "=2, write_quorum=3, ack_quorum=2",
        ),
        ({"ack_quorum": 4}, ValueError, ">= ack_quorum >= 1"),
        ({"ack_quorum": 0}, ValueError, "ack_quorum=0"),
        ({"ensemble_size": True}, TypeError, "ensemble_size must be a whole number, not bool"),
        ({"write_quorum": 2.0}, TypeError, "write_quorum must be a whole number, not float"),
        ({"digest": 3}, TypeError, "digest must be a DigestType, not int"),
        ({"password": "text"}, TypeError, "password must be bytes, not str"),
        ({"custom_metadata": {"a": "b"}}, TypeError, "maps str to bytes, not str to str"),
        ({"custom_metadata": {b"a": b"b"}}, TypeError, "maps str to bytes, not bytes to bytes"),
        ({"custom_metadata": ["a"]}, TypeError, "must be a mapping"),
        ({"custom_metadata": {"a": bytes(600_000)}}, ValueError, "600,001 bytes"),
        ({"ledger_id": -1}, ValueError, "below 2\\*\\*63, not -1"),
        ({"ledger_id": 2**63}, ValueError, "below 2\\*\\*63"),
        ({"ledger_id": "7"}, TypeError, "ledger id must be a whole number"),
    ],
)
def test_creating_refuses(arguments, error, words):
    async def program(bk, model):
        with pytest.raises(error, match=words):
            await bk.create_ledger(**arguments)
        assert await bk.list_ledgers() == []

    in_model(program)


def test_opening_refuses():
    async def program(bk, model):
        with pytest.raises(TypeError, match="password must be bytes"):
            await bk.open_ledger(0, "secret")
        with pytest.raises(ValueError, match="below 2"):
            await bk.open_ledger(-1)
        for ask in (bk.open_ledger, bk.delete_ledger, bk.ledger_metadata):
            with pytest.raises(NoSuchLedgerError) as caught:
                await ask(12345)
            assert caught.value.ledger_id == 12345

    in_model(program)


def test_a_password_is_in_no_message_and_no_repr():
    async def program(bk, model):
        with pytest.raises(TypeError) as caught:
            await bk.create_ledger(password="hunter2")
        writer = await bk.create_ledger(password=b"hunter2")
        return f"{caught.value} {writer.metadata} {writer!r} {bk!r} {bk.settings}"

    assert "hunter2" not in in_model(program)


@pytest.mark.parametrize(
    "uri", ["", "127.0.0.1:2181", "http://a/ledgers", "zk://", "zk:///ledgers", "zk://a:x/l"]
)
def test_an_address_that_is_none(uri):
    with pytest.raises(ValueError, match=r"zk://|ZooKeeper|host:port"):
        BookKeeper(uri)


def test_either_an_address_or_znodes():
    with pytest.raises(ValueError, match="either"):
        BookKeeper()
    with pytest.raises(ValueError, match="either"):
        BookKeeper("zk://a:1/ledgers", znodes=object())


def test_a_client_that_is_not_open_refuses_everything():
    model = ModelCluster(seed=1)

    async def main():
        bk = BookKeeper(znodes=model.znodes("client"))
        for state in ("not open", "closed"):
            for ask in (bk.create_ledger, bk.bookies, lambda: bk.open_ledger(1), lambda: bk.delete_ledger(1)):
                with pytest.raises(ClosedClientError, match=state) as caught:
                    await ask()
                assert caught.value.outcome is Outcome.NOT_DONE
            with pytest.raises(ClosedClientError, match=state):
                bk.list_ledgers()
            if state == "not open":
                await bk.open()
                with pytest.raises(RuntimeError, match="open already"):
                    await bk.open()
                await bk.create_ledger()
                await bk.close()
                await bk.close()
        with pytest.raises(ClosedClientError, match="make another"):
            await bk.open()

    model.run(main)


def test_a_root_without_a_cluster_is_told_and_leaves_no_session():
    model = ModelCluster(seed=1)

    async def main():
        znodes = model.znodes("client")
        with pytest.raises(UnknownLayoutError, match="/elsewhere/LAYOUT"):
            async with BookKeeper(znodes=znodes, root="/elsewhere"):
                pass
        with pytest.raises(ClosedClientError):
            await znodes.exists("/")

    model.run(main)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"request_timeout_s": 0}, "request_timeout_s must be positive"),
        ({"request_timeout_s": float("nan")}, "request_timeout_s must be positive"),
        ({"long_poll_s": "1"}, "long_poll_s must be a number, not str"),
        ({"max_in_flight_entries": 1.5}, "whole number"),
        ({"explicit_lac_interval_s": -1.0}, "explicit_lac_interval_s must be positive"),
        ({"tail_interval_s": 0.0}, "tail_interval_s must be positive"),
        ({"max_frame_bytes": 100}, "max_frame_bytes must be above"),
        ({"backoff_first_s": 5.0}, "backoff_max_s must not be below"),
    ],
)
def test_settings_refuse(change, words):
    with pytest.raises(ValueError, match=words):
        ClientSettings(**change)


def test_the_largest_entry_fits_a_frame_and_one_byte_more_is_refused_before_sending():
    async def program(bk, model):
        from herdpy.bookkeeper import EntryTooLargeError

        writer = await bk.create_ledger()
        await writer.append(bytes(bk.settings.max_entry_bytes))
        sent = {one.bookie: one.frames_sent for one in bk.metrics}
        for append in (writer.append_nowait, writer.append):
            with pytest.raises(EntryTooLargeError) as caught:
                await append(bytes(bk.settings.max_entry_bytes + 1))
            assert caught.value.outcome is Outcome.NOT_DONE
        assert {one.bookie: one.frames_sent for one in bk.metrics} == sent
        assert await writer.append(b"goes on") == 1

    in_model(program)


@pytest.mark.parametrize(
    ("package", "first"), [("kazoo", "BookKeeper('zk://a:1/l')"), ("google.protobuf", "pass")]
)
def test_a_missing_package_is_told_with_the_extra(package, first):
    code = f"import sys; sys.modules['{package}'] = None; from herdpy.bookkeeper import BookKeeper; {first}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"ImportError: {package_of(package)} is not installed" in done.stderr
    assert 'pip install "herdpydb[bookkeeper]"' in done.stderr.splitlines()[-1]


def test_the_same_seed_chooses_the_same():
    async def program(bk, model):
        return [(await bk.create_ledger()).metadata for _ in range(5)]

    first, second = in_model(program, bookies=9), in_model(program, bookies=9)
    assert first == second
    assert first[0].ctime_ms == 1500
    assert len({one.segments for one in first}) > 1


def test_an_event_loop_is_not_needed_to_make_one():
    bk = BookKeeper("zk://127.0.0.1:1/ledgers", settings=ClientSettings(zookeeper_timeout_s=0.2))

    async def close_and_use() -> None:
        await bk.close()
        with pytest.raises(ClosedClientError):
            await bk.create_ledger()

    asyncio.run(close_and_use())
