"""Whether the rows there satisfy a foreign key that is new, or was NOT VALID."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from herdpy_sql.execute.links import links_of
from herdpy_sql.execute.violations import mixed, not_present

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table
    from herdpy_sql.storage import View

_STEP_ROWS = 64


def validate_foreign_key(view: View, table: Table, name: str) -> Generator[None, None, None]:
    """Look at every row of ``table``, in steps; both tables are locked for that. SqlError 23503; MustWait."""
    link = links_of(view.catalog).named((table.id, name))
    if link is None:
        return  # dropped by the same statement
    view.lock_definition(link.parent)
    view.lock_definition(link.child)
    decode = table.row_codec.decoder(link.key.columns)
    seen: set[bytes] = set()
    for count, (_, image) in enumerate(view.scan(table), 1):
        values = decode(image)
        if None in values:
            if link.key.full and any(value is not None for value in values):
                raise mixed(link)
        elif (code := link.codec.encode(values)) not in seen:
            if link.parent_key(view, values) is None:
                raise not_present(link, values)
            seen.add(code)
        if not count % _STEP_ROWS:
            yield
