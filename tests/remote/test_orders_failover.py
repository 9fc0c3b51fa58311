"""examples/orders on three servers of which the leader is killed while orders come in."""

from __future__ import annotations

import pytest

import herdpy
from tests.support.orders_judge import judged, stock_up
from tests.support.orders_service import Customers, OrdersService, alembic

pytestmark = pytest.mark.timeout(180)


def test_no_order_is_lost_or_doubled_when_the_leader_is_killed(cluster):
    first, *others = cluster.url.removeprefix("herdpy://").partition("/")[0].split(",")
    url = f"herdpy://{first}/herdpy?hosts={','.join(others)}"
    alembic(url, "upgrade", "head")
    service = OrdersService(url)
    try:
        stock_up(service.url)
        customers = Customers(lambda: service.url, "failover")
        try:
            customers.await_progress()
            old = cluster.await_leader()
            cluster.kill(old)
            customers.await_progress()
            cluster.start(old)
        finally:
            customers.stop()
    finally:
        service.close()
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        assert customers.placed
        assert judged(conn, customers) == []
    alembic(url, "downgrade", "base")
