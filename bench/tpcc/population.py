"""The rows of a new database (clause 4.3.3), from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bench.tpcc.scale import Scale
from bench.tpcc.schema import INDEXES, TABLES

_SYLLABLES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
_BEGAN = datetime(2024, 1, 1)
_BATCH = 500

Row = tuple[Any, ...]


def last_name(number: int) -> str:
    """The last name of a number from 0 to 999."""
    return "".join(_SYLLABLES[int(digit)] for digit in f"{number:03d}")


def load(connection: Any, scale: Scale, seed: int) -> None:
    """Make the tables and fill them. The connection is left without a transaction."""
    cursor = connection.cursor()
    for statement in TABLES.values():
        cursor.execute(statement)
    connection.commit()
    for table, rows in _Population(scale, random.Random(seed)).tables():
        batch: list[Row] = []
        for row in rows:
            batch.append(row)
            if len(batch) == _BATCH:
                _insert(cursor, table, batch)
                batch = []
        _insert(cursor, table, batch)
        connection.commit()
    for statement in INDEXES:
        cursor.execute(statement)
    connection.commit()


def _insert(cursor: Any, table: str, rows: Sequence[Row]) -> None:
    if rows:
        marks = ", ".join(["%s"] * len(rows[0]))
        cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


class _Population:
    def __init__(self, scale: Scale, random_: random.Random) -> None:
        self.scale = scale
        self.random = random_

    def tables(self) -> Iterator[tuple[str, Iterator[Row]]]:
        """Each table with its rows, those that are referred to first."""
        yield "warehouse", self._warehouses()
        yield "district", self._districts()
        yield "customer", self._customers()
        yield "history", self._history()
        yield "item", self._items()
        yield "stock", self._stock()
        orders = list(self._orders())
        yield "orders", iter(orders)
        yield "new_order", (row[:3] for row in orders if row[5] is None)
        yield "order_line", self._lines(orders)

    def _places(self) -> Iterator[tuple[int, int]]:
        for warehouse in range(1, self.scale.warehouses + 1):
            for district in range(1, self.scale.districts + 1):
                yield warehouse, district

    def _address(self) -> Row:
        number = self.random.randrange(10_000)
        return f"street {number}", "", f"city {number % 100}", "ST", f"{number:04d}11111"

    def _tax(self) -> Decimal:
        return Decimal(self.random.randrange(2001)) / 10_000

    def _warehouses(self) -> Iterator[Row]:
        ytd = Decimal(10 * self.scale.customers * self.scale.districts)
        for number in range(1, self.scale.warehouses + 1):
            yield number, f"w{number}", *self._address(), self._tax(), ytd

    def _districts(self) -> Iterator[Row]:
        ytd = Decimal(10 * self.scale.customers)
        for warehouse, number in self._places():
            name = f"d{number}"
            yield warehouse, number, name, *self._address(), self._tax(), ytd, self.scale.orders + 1

    def _customers(self) -> Iterator[Row]:
        for warehouse, district in self._places():
            for number in range(1, self.scale.customers + 1):
                name = last_name((number - 1) % 1000 if number <= 1000 else self.random.randrange(1000))
                credit = "BC" if self.random.random() < 0.1 else "GC"
                discount = Decimal(self.random.randrange(5001)) / 10_000
                yield (
                    *(warehouse, district, number, f"first{number}", "OE", name, *self._address()),
                    *("0123456789012345", _BEGAN, credit, Decimal(50_000), discount),
                    *(Decimal(-10), Decimal(10), 1, 0, "data"),
                )

    def _history(self) -> Iterator[Row]:
        for warehouse, district in self._places():
            for customer in range(1, self.scale.customers + 1):
                yield customer, district, warehouse, district, warehouse, _BEGAN, Decimal(10), "history"

    def _items(self) -> Iterator[Row]:
        for number in range(1, self.scale.items + 1):
            price = Decimal(self.random.randrange(100, 10_001)) / 100
            yield number, self.random.randrange(1, 10_001), f"item {number}", price, self._data()

    def _data(self) -> str:
        return "some ORIGINAL words" if self.random.random() < 0.1 else "some other words"

    def _stock(self) -> Iterator[Row]:
        for warehouse in range(1, self.scale.warehouses + 1):
            for item in range(1, self.scale.items + 1):
                yield warehouse, item, self.random.randrange(10, 101), "dist", 0, 0, 0, self._data()

    def _orders(self) -> Iterator[Row]:
        delivered = self.scale.orders - self.scale.undelivered
        for warehouse, district in self._places():
            customers = list(range(1, self.scale.customers + 1))
            self.random.shuffle(customers)
            for number, customer in enumerate(customers, 1):
                carrier = self.random.randrange(1, 11) if number <= delivered else None
                entered = _BEGAN + timedelta(seconds=number)
                yield (
                    *(warehouse, district, number, customer, entered, carrier),
                    *(self.random.randrange(5, 16), 1),
                )

    def _lines(self, orders: Sequence[Row]) -> Iterator[Row]:
        for warehouse, district, order, _customer, entered, carrier, count, _local in orders:
            for number in range(1, count + 1):
                amount = Decimal(self.random.randrange(1, 1_000_000)) / 100 if carrier is None else Decimal(0)
                item = self.random.randrange(1, self.scale.items + 1)
                yield (
                    *(warehouse, district, order, number, item, warehouse),
                    *(None if carrier is None else entered, 5, min(amount, Decimal("9999.99")), "dist"),
                )
