"""examples/orders on a directory: migrations, HTTP, and a service that is killed while orders come in."""

from __future__ import annotations

import httpx
import pytest

import herdpy
from tests.support.orders_judge import judged, stock_up
from tests.support.orders_service import Customers, OrdersService, alembic


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A database that Alembic has brought up to date."""
    directory = tmp_path_factory.mktemp("orders") / "d"
    alembic(f"herdpy:///{directory}", "upgrade", "head")
    return directory


@pytest.fixture(params=["api", "async_api"])
def interface(request):
    return request.param


@pytest.fixture
def service(directory, interface):
    service = OrdersService(f"herdpy:///{directory}", interface)
    stock_up(service.url)
    yield service
    service.close()


def test_the_models_are_what_the_migrations_made(directory):
    assert "No new upgrade operations detected" in alembic(f"herdpy:///{directory}", "check")


def test_an_order(service, interface):
    first, second = f"{interface}-1", f"{interface}-2"

    def post(key, lines):
        body = {"customer": "ann", "lines": lines}
        return httpx.post(f"{service.url}/orders", headers={"Idempotency-Key": key}, json=body)

    placed = post(first, {"pear": 3, "apple": 1})
    assert placed.status_code == 201
    assert placed.json()["lines"] == [
        {"sku": "apple", "quantity": 1, "price": "0.35"},
        {"sku": "pear", "quantity": 3, "price": "0.50"},
    ]
    again = post(first, {"pear": 99})
    assert (again.status_code, again.json()) == (200, placed.json())
    assert httpx.get(f"{service.url}/orders/{first}").json() == placed.json()
    assert httpx.get(f"{service.url}/orders/{second}").status_code == 404
    for lines in ({"apple": 1, "pear": 2_000_000}, {"fig": 1}):
        assert post(second, lines).status_code == 409
    assert post(second, {"pear": 0}).status_code == 422
    stock = {item["sku"]: item["stock"] for item in httpx.get(f"{service.url}/items").json()}
    assert stock == {"apple": 999_999, "pear": 999_997, "plum": 1_000_000}


def test_no_order_is_lost_or_doubled_when_the_service_is_killed(tmp_path):
    url = f"herdpy:///{tmp_path}/d"
    alembic(url, "upgrade", "head")
    services = [OrdersService(url)]
    stock_up(services[0].url)
    customers = Customers(lambda: services[-1].url, "killed")
    try:
        customers.await_progress()
        services[-1].close()
        services.append(OrdersService(url))
        customers.await_progress()
        customers.stop()
    finally:
        customers._over = True
        services[-1].close()
    with herdpy.connect(url) as conn:
        assert customers.placed
        assert judged(conn, customers) == []
