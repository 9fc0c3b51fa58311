"""Whether foreign keys hold: the checks that a statement makes at its end, and those put off until COMMIT.

Below ``references``. A check reads what the view has then, and locks the rows that its answer rests on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy_sql.execute.links import links_of
from herdpy_sql.execute.violations import not_present, still_referenced
from herdpy_sql.lock_modes import KEY_SHARE

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Table
    from herdpy_sql.errors import SqlError
    from herdpy_sql.execute.deferred import Name
    from herdpy_sql.execute.links import Link, Values
    from herdpy_sql.storage import View


def settle_deferred(view: View, names: set[Name] | None = None) -> None:
    """Make the checks that were put off, of these constraints or of all. SqlError 23503; MustWait."""
    deferred = view.deferred
    if deferred is None or not deferred.is_pending:
        return
    links = links_of(view.catalog)
    for check in deferred.checks():
        if names is not None and check.constraint not in names:
            continue
        link = links.named(check.constraint)
        if link is None:
            continue  # dropped since
        if not check.of_child:
            check_parent(view, link, check.values)
        elif (found := link.parent_key(view, check.values)) is not None:
            view.lock_row(link.parent, found, KEY_SHARE)
        elif _is_there(view, link, check.values, check.key):
            raise not_present(link, check.values)
    view.deferred = deferred.without(names)


def check_child(
    view: View, link: Link, values: Values, row: Sequence[Datum] | None = None, nth: int | None = None
) -> None:
    """See that what a row refers to is there, and stays. SqlError 23503; MustWait."""
    found = link.parent_key(view, values)
    if found is not None:
        view.lock_row(link.parent, found, KEY_SHARE)
    elif _is_there(view, link, values, None if row is None else row_key(link.child, row)):
        raise numbered(not_present(link, values), nth)


def _is_there(view: View, link: Link, values: Values, key: bytes | None) -> bool:
    """Whether a row refers by these values still: what the statement wrote it may have changed again."""
    if key is not None:
        image = view.get(link.child, key)
        if image is not None and link.refers(link.child.row_codec.decode(image), link.codec.encode(values)):
            return True
    return any(True for _ in link.children(view.newest, values))


def check_parent(view: View, link: Link, values: Values) -> None:
    """See that no row refers to one that went, unless another has its values. SqlError 23503; MustWait."""
    if not link.exists(view.newest, values):
        refuse_children(view, link, values)


def refuse_children(view: View, link: Link, values: Values) -> None:
    """See that no row refers to these values. SqlError 23503; MustWait."""
    referring = link.child_values(values)
    if referring is None:
        return
    for key, _, _ in link.children(view.newest, referring):
        view.lock_row(link.child, key, KEY_SHARE)  # one that is being taken away is waited for
        raise still_referenced(link, values)


def row_key(table: Table, row: Sequence[Datum]) -> bytes:
    """The key of a row."""
    return table.key_codec.encode([row[position] for position in table.key_positions])


def numbered(error: SqlError, nth: int | None) -> SqlError:
    """The error, with the row's number in its batch."""
    if nth is not None:
        error.fields["nth"] = str(nth)
    return error
