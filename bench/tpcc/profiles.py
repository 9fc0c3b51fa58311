"""The five transactions (clauses 2.4 to 2.8), as a terminal of one warehouse asks for them."""

from __future__ import annotations

import random
from datetime import datetime
from decimal import Decimal
from typing import Any

from bench.tpcc.population import last_name
from bench.tpcc.scale import Scale

MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}


class Unused(Exception):  # noqa: N818 - what one in a hundred New-Orders asks for
    """An order is for an item that does not exist: it is rolled back."""


class Profiles:
    """Runs transactions on a connection of DB-API, and commits them.

    Attributes:
        ordered: (warehouse, district, order) of the New-Orders whose COMMIT was answered.
    """

    def __init__(self, connection: Any, scale: Scale, warehouse: int, seed: int) -> None:
        self.use(connection)
        self.scale = scale
        self.warehouse = warehouse
        self.random = random.Random(seed)
        self.ordered: list[tuple[int, int, int]] = []

    def use(self, connection: Any) -> None:
        """Go on with this connection."""
        self.connection = connection
        self._cursor = connection.cursor()

    def any(self) -> str:
        """Run one of the mix, and say which; what the connection raises goes to the caller."""
        name = self.random.choices(list(MIX), list(MIX.values()))[0]
        try:
            getattr(self, name)()
        except Unused:
            self.connection.rollback()
        return name

    def new_order(self) -> None:
        """An order of 5 to 15 lines, of which one in a hundred is of another warehouse."""
        warehouse, district, customer = self.warehouse, self._district(), self._customer()
        lines = sorted(self._line() for _ in range(self.random.randrange(5, 16)))
        unused = self.random.randrange(100) == 0
        local = int(all(supply == warehouse for _, supply, _ in lines))
        order = self._one(
            "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %s AND d_id = %s "
            "RETURNING d_next_o_id - 1",
            (warehouse, district),
        )[0]
        self._one(
            "SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id "
            "WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s",
            (warehouse, district, customer),
        )
        self._do(
            "INSERT INTO orders VALUES (%s, %s, %s, %s, %s, NULL, %s, %s)",
            (warehouse, district, order, customer, datetime.now(), len(lines), local),
        )
        self._do("INSERT INTO new_order VALUES (%s, %s, %s)", (warehouse, district, order))
        for number, (item, supply, quantity) in enumerate(lines, 1):
            self._order_line(district, order, number, item, supply, quantity)
        if unused:
            raise Unused
        self.connection.commit()
        self.ordered.append((warehouse, district, order))

    def _order_line(
        self, district: int, order: int, number: int, item: int, supply: int, quantity: int
    ) -> None:
        price = self._one("SELECT i_price FROM item WHERE i_id = %s", (item,))[0]
        dist = self._one(
            "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= %s + 10 THEN s_quantity - %s "
            "ELSE s_quantity - %s + 91 END, s_ytd = s_ytd + %s, s_order_cnt = s_order_cnt + 1, "
            "s_remote_cnt = s_remote_cnt + %s WHERE s_w_id = %s AND s_i_id = %s RETURNING s_dist",
            (quantity, quantity, quantity, quantity, int(supply != self.warehouse), supply, item),
        )[0]
        self._do(
            "INSERT INTO order_line VALUES (%s, %s, %s, %s, %s, %s, NULL, %s, %s, %s)",
            (self.warehouse, district, order, number, item, supply, quantity, price * quantity, dist),
        )

    def payment(self) -> None:
        """A payment of a customer, of whom 60 in 100 are found by their names."""
        warehouse, district = self.warehouse, self._district()
        amount = Decimal(self.random.randrange(100, 500_001)) / 100
        home, home_district = warehouse, district
        if self.scale.warehouses > 1 and self.random.randrange(100) < 15:
            home, home_district = self._other_warehouse(), self._district()
        self._do("UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %s", (amount, warehouse))
        self._do(
            "UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %s AND d_id = %s",
            (amount, warehouse, district),
        )
        customer = self._found_customer(home, home_district)
        self._do(
            "UPDATE customer SET c_balance = c_balance - %s, c_ytd_payment = c_ytd_payment + %s, "
            "c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s",
            (amount, amount, home, home_district, customer),
        )
        self._do(
            "INSERT INTO history VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (customer, home_district, home, district, warehouse, datetime.now(), amount, "payment"),
        )
        self.connection.commit()

    def order_status(self) -> None:
        """A customer's newest order and its lines."""
        district = self._district()
        customer = self._found_customer(self.warehouse, district)
        found = self._rows(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = %s AND o_d_id = %s "
            "AND o_c_id = %s ORDER BY o_id DESC LIMIT 1",
            (self.warehouse, district, customer),
        )
        for order, *_ in found:
            self._rows(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line "
                "WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s",
                (self.warehouse, district, order),
            )
        self.connection.commit()

    def delivery(self) -> None:
        """The oldest undelivered order of each district is delivered."""
        for district in range(1, self.scale.districts + 1):
            oldest = self._rows(
                "SELECT no_o_id FROM new_order WHERE no_w_id = %s AND no_d_id = %s ORDER BY no_o_id LIMIT 1",
                (self.warehouse, district),
            )
            for (order,) in oldest:
                self._deliver(district, order)
        self.connection.commit()

    def _deliver(self, district: int, order: int) -> None:
        place = (self.warehouse, district, order)
        if not self._rows(
            "DELETE FROM new_order WHERE no_w_id = %s AND no_d_id = %s AND no_o_id = %s RETURNING no_o_id",
            place,
        ):
            return  # another terminal was faster
        customer = self._one(
            "UPDATE orders SET o_carrier_id = %s WHERE o_w_id = %s AND o_d_id = %s AND o_id = %s "
            "RETURNING o_c_id",
            (self.random.randrange(1, 11), *place),
        )[0]
        amounts = self._rows(
            "UPDATE order_line SET ol_delivery_d = %s WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id = %s "
            "RETURNING ol_amount",
            (datetime.now(), *place),
        )
        self._do(
            "UPDATE customer SET c_balance = c_balance + %s, c_delivery_cnt = c_delivery_cnt + 1 "
            "WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s",
            (sum(one for (one,) in amounts), self.warehouse, district, customer),
        )

    def stock_level(self) -> None:
        """How many items of the last 20 orders are low in stock."""
        district = self._district()
        following = self._one(
            "SELECT d_next_o_id FROM district WHERE d_w_id = %s AND d_id = %s", (self.warehouse, district)
        )[0]
        self._one(
            "SELECT count(DISTINCT s_i_id) FROM order_line "
            "JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id "
            "WHERE ol_w_id = %s AND ol_d_id = %s AND ol_o_id >= %s AND ol_o_id < %s AND s_quantity < %s",
            (self.warehouse, district, following - 20, following, self.random.randrange(10, 21)),
        )
        self.connection.commit()

    def _found_customer(self, warehouse: int, district: int) -> int:
        if self.random.randrange(100) < 60:
            name = last_name(self._uneven(255, 0, min(self.scale.customers, 1000) - 1))
            found = self._rows(
                "SELECT c_id FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_last = %s "
                "ORDER BY c_first",
                (warehouse, district, name),
            )
            if found:
                number: int = found[len(found) // 2][0]
                return number
        return self._customer()

    def _line(self) -> tuple[int, int, int]:
        supply = self.warehouse
        if self.scale.warehouses > 1 and self.random.randrange(100) == 0:
            supply = self._other_warehouse()
        return self._uneven(8191, 1, self.scale.items), supply, self.random.randrange(1, 11)

    def _district(self) -> int:
        return self.random.randrange(1, self.scale.districts + 1)

    def _customer(self) -> int:
        return self._uneven(1023, 1, self.scale.customers)

    def _other_warehouse(self) -> int:
        other = self.random.randrange(1, self.scale.warehouses)
        return other + (other >= self.warehouse)

    def _uneven(self, mask: int, low: int, high: int) -> int:
        """NURand (clause 2.1.6), its constant being 0."""
        both = self.random.randrange(mask + 1) | self.random.randrange(low, high + 1)
        return both % (high - low + 1) + low

    def _do(self, sql: str, params: tuple[Any, ...]) -> None:
        self._cursor.execute(sql, params)

    def _rows(self, sql: str, params: tuple[Any, ...]) -> list[Any]:
        self._cursor.execute(sql, params)
        return list(self._cursor.fetchall())

    def _one(self, sql: str, params: tuple[Any, ...]) -> Any:
        (row,) = self._rows(sql, params)
        return row
