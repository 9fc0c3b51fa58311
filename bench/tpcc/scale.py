"""How much of everything there is. The specification's cardinalities are the defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Rows: ``districts`` a warehouse; ``customers`` and ``orders`` a district.

    ``undelivered`` are the newest orders, which nobody has delivered yet.
    """

    warehouses: int = 1
    districts: int = 10
    customers: int = 3000
    items: int = 100_000

    @property
    def orders(self) -> int:
        """Each customer has one at first."""
        return self.customers

    @property
    def undelivered(self) -> int:
        """900 of 3,000."""
        return self.customers * 3 // 10


SMALL = Scale(districts=3, customers=20, items=50)
"""For tests."""
