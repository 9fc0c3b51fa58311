"""Group commit: who flushes, in what order answers come, and that none comes before the sync."""

import asyncio
import queue
import sys
import threading

import pytest

from herdpy.log import LSN, LogWriteError


class Gate:
    """Holds a disk operation until it is let go; ``entered`` says that it is there."""

    def __init__(self):
        self.entered, self.go = queue.Queue(), queue.Queue()

    def __call__(self, path):
        self.entered.put(path)
        self.go.get()


def test_nothing_is_answered_before_the_sync(disk, kit):
    log = kit.open(disk)
    kit.put(log, 0)
    disk.fail["fdatasync"] = gate = Gate()
    append = log.append(kit.transaction(1))
    thread = threading.Thread(target=append.block)
    thread.start()
    gate.entered.get()
    assert not append.done()
    assert log.lac == LSN(1, 0)
    assert kit.numbers(log) == [0]  # written, and not read before it is durable
    gate.go.put(None)
    thread.join()
    assert append.result() == log.lac == LSN(1, 1)


def test_what_gathers_during_a_sync_is_one_entry_and_one_sync(disk, kit):
    log = kit.open(disk)
    kit.put(log, 0)
    disk.fail["fdatasync"] = gate = Gate()
    first = log.append(kit.transaction(1))
    threads = [threading.Thread(target=first.block)]
    threads[0].start()
    gate.entered.get()
    behind = [log.append(kit.transaction(2 + i)) for i in range(10)]
    threads += [threading.Thread(target=append.block) for append in behind]
    for thread in threads[1:]:
        thread.start()
    gate.go.put(None)
    gate.entered.get()
    assert first.done()
    gate.go.put(None)
    for thread in threads:
        thread.join()
    assert {append.result() for append in behind} == {LSN(1, 2)}
    assert gate.entered.empty()
    assert kit.numbers(log) == [*range(12)]


def test_sixteen_threads_are_acknowledged_in_the_order_of_the_log(disk, kit):
    order, resolved = [], []

    def acknowledge(appends, error):
        order.extend(appends)
        for append in appends:
            append.when_done(lambda append=append: resolved.append(append))

    log = kit.open(disk, acknowledge)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work(base):
        for number in range(20):
            append = log.append(kit.transaction(base * 100 + number))
            append.block()
            assert append.done()

    try:
        threads = [threading.Thread(target=work, args=(base,)) for base in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(order) == 320
    assert [a.lsn for a in order] == sorted(a.lsn for a in order)
    assert list(map(id, resolved)) == list(map(id, order))
    found = kit.numbers(log)
    assert found == [int(a.transaction.records[0].row.strip(b"_")) for a in order]
    for base in range(16):  # each thread's own appends in its own order
        assert [n for n in found if n // 100 == base] == [base * 100 + i for i in range(20)]
    log.close()


def test_an_event_loop_gets_its_answers_without_a_thread_of_its_own(disk, kit):
    log = kit.open(disk)

    async def client(base):
        return [await log.append(kit.transaction(base * 100 + i)) for i in range(10)]

    async def main():
        return await asyncio.gather(*(client(base) for base in range(8)))

    for positions in asyncio.run(main()):
        assert positions == sorted(set(positions))
    assert len(kit.numbers(log)) == 80
    thread = log._group._background
    assert thread.name == "herdpy-log-flusher"
    log.close()
    assert not thread.is_alive()


def test_threads_and_loops_share_a_log(disk, kit):
    log = kit.open(disk)

    def block():
        for number in range(60):
            kit.put(log, number)

    async def main():
        for number in range(100, 160):
            await log.append(kit.transaction(number))

    threads = [threading.Thread(target=block) for _ in range(3)]
    threads += [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = kit.numbers(log)
    assert sorted(found) == sorted([*range(60), *range(100, 160)] * 3)
    log.close()


def test_flush_pushes_what_nobody_waits_for(disk, kit):
    log = kit.open(disk)
    log.flush()
    appends = [log.append(kit.transaction(i)) for i in range(5)]
    assert not any(append.done() for append in appends)
    log.flush()
    assert all(append.done() for append in appends)
    disk.fail["pwrite"] = 5
    log.append(kit.transaction(9))
    with pytest.raises(LogWriteError):
        log.flush()


def test_flush_waits_for_what_is_being_written(disk, kit):
    log = kit.open(disk)
    kit.put(log, 0)
    disk.fail["fdatasync"] = gate = Gate()
    append = log.append(kit.transaction(1))
    leader = threading.Thread(target=append.block)
    leader.start()
    gate.entered.get()
    flusher = threading.Thread(target=log.flush)
    flusher.start()
    gate.go.put(None)
    flusher.join()
    leader.join()
    assert append.done()


def test_a_waiter_that_gives_up_does_not_take_the_role_with_it(disk, kit):
    log = kit.open(disk)
    kit.put(log, 0)
    disk.fail["fdatasync"] = gate = Gate()
    first = log.append(kit.transaction(1))
    leader = threading.Thread(target=first.block)
    leader.start()
    gate.entered.get()
    second, third = log.append(kit.transaction(2)), log.append(kit.transaction(3))
    assert second.block(0.001) is False
    waiter = threading.Thread(target=third.block)
    waiter.start()
    gate.go.put(None)
    gate.entered.get()  # the waiter leads, for both
    gate.go.put(None)
    leader.join()
    waiter.join()
    assert second.block(0)
    assert second.result() == third.result()


def test_several_threads_may_block_on_one_append(disk, kit):
    log = kit.open(disk)
    kit.put(log, 0)
    for number in range(1, 20):
        disk.fail["fdatasync"] = gate = Gate()
        first = log.append(kit.transaction(number))
        threads = [threading.Thread(target=first.block)]
        threads[0].start()
        gate.entered.get()
        shared = log.append(kit.transaction(100 + number))
        threads += [threading.Thread(target=shared.block) for _ in range(4)]
        threads += [threading.Thread(target=shared.block, args=(0.0005,)) for _ in range(2)]
        for thread in threads[1:]:
            thread.start()
        gate.go.put(None)
        gate.go.put(None)
        for thread in threads:
            thread.join()
        assert shared.done()


def test_a_group_is_not_larger_than_it_may_be(disk, kit):
    log = kit.open(disk, settings={"max_group_bytes": 500})
    appends = [log.append(kit.transaction(i, 200)) for i in range(7)]
    log.flush()
    positions = [append.result() for append in appends]
    assert positions == sorted(positions)
    assert len(set(positions)) == 3
    assert kit.numbers(log) == [*range(7)]
