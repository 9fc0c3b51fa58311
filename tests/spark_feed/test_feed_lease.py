"""What keeps the log there for a stream that runs."""

from __future__ import annotations

import queue

import pytest

from herdpy.log import LSN
from herdpy.rpc import logs_pb2
from herdpy_spark.access import AccessError
from herdpy_spark.feed.lease import FeedLease


class Servers:
    """Servers that keep leases; each call can be awaited, and refused."""

    tablespace = "t"

    def __init__(self):
        self.calls = queue.Queue()
        self.errors = []


class Lease(FeedLease):
    """One whose calls go to ``Servers`` as they are."""

    def _call(self, method, request):
        servers = self._servers
        if servers.errors:
            raise servers.errors.pop()
        after = getattr(request, "after", None)
        servers.calls.put((method, request.id if after is None else LSN(after.ledger_id, after.entry_id)))
        return logs_pb2.LogLease(id="one", tablespace="t")


@pytest.fixture
def kept():
    servers = Servers()
    lease = Lease(servers, "changes of t", 1.0)
    yield servers, lease
    lease.close()


def test_a_lease_is_there_before_anything_is_read_and_moves_on(kept):
    servers, lease = kept
    lease.keep(LSN(1, 5))
    assert servers.calls.get_nowait() == ("Lease", LSN(1, 5))
    lease.keep(LSN(2, 0))
    while (call := servers.calls.get(timeout=60)) != ("Renew", LSN(2, 0)):
        assert call == ("Renew", LSN(1, 5))
    lease.close()
    assert ("Renew", LSN(2, 0)) in list(servers.calls.queue)  # once more: what is not read stays for its time
    assert "Release" not in {method for method, _ in servers.calls.queue}


def test_a_lease_that_is_over_is_made_again(kept):
    servers, lease = kept
    lease.keep(LSN(1, 5))
    servers.errors.append(AccessError("the lease is over", is_gone=True))
    calls = [servers.calls.get(timeout=60) for _ in range(3)]
    assert [method for method, _ in calls] == ["Lease", "Lease", "Renew"]


def test_a_stream_without_servers_goes_on_and_says_so(kept, caplog):
    servers, lease = kept
    servers.errors.append(AccessError("no server answers", is_transient=True))
    lease.keep(LSN(1, 5))
    assert "the log is not retained for the stream: no server answers" in caplog.text
    assert servers.calls.get(timeout=60) == ("Lease", LSN(1, 5))


def test_a_lease_that_is_released_is_renewed_no_more(kept):
    servers, lease = kept
    lease.keep(LSN(1, 5))
    lease.release()
    calls = list(servers.calls.queue)
    assert calls[-1] == ("Release", "one")
    lease.release()
    assert list(servers.calls.queue) == calls


def test_a_lease_that_cannot_be_released_ends_by_itself(kept, caplog):
    servers, lease = kept
    lease.keep(LSN(1, 5))
    lease.close()
    servers.errors.append(AccessError("no server answers", is_transient=True))
    lease.release()
    assert "the lease on the log is not released: no server answers" in caplog.text
