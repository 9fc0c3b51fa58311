"""The broker as one object: for programs that submit tasks and wait for them."""

from __future__ import annotations

import threading

import pytest
from herdpy_broker import letters
from herdpy_broker.broker import Broker
from herdpy_broker.errors import NoSuchTaskError, TaskFailedError
from herdpy_broker.schedule import Schedule
from herdpy_broker.submission import Submission


@pytest.fixture
def broker(directory, connect):
    with Broker(directory, max_connections=4) as broker:
        yield broker


def test_all_of_it(broker, desk):
    broker.migrate()
    broker.define("mail", max_attempts=1)
    broker.set_group("default", weight=2)
    first, second = broker.submit_all([Submission("mail", batch="b"), Submission("mail", batch="b")])
    broker.cancel(broker.submit(Submission("mail", slot="s")))
    assert desk.claim(1) == [first]
    desk.fail(first)
    broker.retry(first)
    assert [(view.id, view.state) for view in broker.batch("b")] == [(first, "ready"), (second, "ready")]
    assert [(count.state, count.tasks) for count in broker.counts()] == [("ready", 2)]
    desk.claim(1)
    desk.fail(first)
    broker.discard(first)
    assert broker.task(first).state == "discarded"
    broker.add_schedule(Schedule(name="s", type="mail", every_s=60))
    broker.remove_schedule("s")


def test_a_result_is_waited_for(broker, desk):
    one = broker.submit(Submission("t"))
    desk.claim()
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(broker.result(one, 60)))
    thread.start()
    desk.finish(one)
    thread.join()
    assert results == [None]


def test_what_has_no_result_says_why(broker, desk):
    cancelled, dead = broker.submit_all([Submission("t"), Submission("t", max_attempts=1)])
    letters.cancel(desk.connection, cancelled)
    desk.claim()
    desk.fail(dead, "it broke")
    with pytest.raises(TaskFailedError, match="cancelled"):
        broker.result(cancelled, 60)
    with pytest.raises(TaskFailedError, match="it broke") as raised:
        broker.result(dead, 60)
    assert (raised.value.reason, raised.value.error) == ("failed", "it broke")
    with pytest.raises(TimeoutError, match="ready"):
        broker.result(broker.submit(Submission("t")), 0)
    with pytest.raises(NoSuchTaskError):
        broker.result(10**12, 60)
