"""Arrow tables that are made once for a catalog, and kept while it is one of the last few asked about.

A catalog never changes: whatever changes one makes another. So what is made of it alone stays right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Catalog

CATALOGS = 4
"""How many catalogs tables are kept of: sessions with search paths or temporary tables have their own."""


class _Same:
    """A catalog as a key: only itself is equal to it."""

    __slots__ = ("catalog",)

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.catalog is self.catalog

    def __hash__(self) -> int:
        return id(self.catalog)


def table(catalog: Catalog, label: str, make: Callable[[], pa.Table]) -> pa.Table:
    """The table that was made for this catalog under this label, or the one that ``make`` gives."""
    known = _tables(_Same(catalog))
    found = known.get(label)
    return known.setdefault(label, make()) if found is None else found


@functools.lru_cache(maxsize=CATALOGS)
def _tables(_of: _Same) -> dict[str, pa.Table]:
    return {}
