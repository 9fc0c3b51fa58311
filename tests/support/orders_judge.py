"""Whether the orders in a database are those that customers know of: none lost, none doubled."""

from __future__ import annotations

import httpx

import herdpy
from tests.support.orders_service import ITEMS, STOCK, Customers


def stock_up(service: str) -> None:
    """Offer the items."""
    for sku, price in ITEMS.items():
        item = {"name": sku.title(), "price": price, "stock": STOCK}
        httpx.put(f"{service}/items/{sku}", json=item, timeout=60).raise_for_status()


def judged(conn: herdpy.Connection, customers: Customers) -> list[str]:
    """What is wrong with the orders: one is lost, changed or doubled, or the stock does not add up.

    An order that nobody knows of may be there once: its customer stopped asking.
    """
    wrong = []
    found = conn.execute(
        "SELECT key, sku, quantity FROM orders JOIN order_line ON order_id = id ORDER BY key, sku"
    ).fetchall()
    kept: dict[str, list[tuple[str, int]]] = {}
    for key, sku, quantity in found:
        kept.setdefault(key, []).append((sku, quantity))
    counted = conn.execute("SELECT count(*), count(DISTINCT key) FROM orders").fetchone()
    if counted != (len(kept), len(kept)):
        wrong.append(f"{counted} orders and keys, {len(kept)} orders with lines")
    for key, told in customers.placed.items():
        lines = told["lines"]
        assert isinstance(lines, list)
        if kept.get(key) != [(line["sku"], line["quantity"]) for line in lines]:
            wrong.append(f"{key} was reported as {lines}, and is {kept.get(key)}")
    wrong += [f"{key} was made {count} times" for key, count in customers.created.items() if count > 1]
    taken = dict(conn.execute("SELECT sku, sum(quantity)::bigint FROM order_line GROUP BY sku").fetchall())
    left = dict(conn.execute("SELECT sku, stock FROM item").fetchall())
    if {sku: STOCK - taken.get(sku, 0) for sku in ITEMS} != left:
        wrong.append(f"{taken} were taken, {left} are left")
    return wrong
