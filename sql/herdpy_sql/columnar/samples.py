"""TABLESAMPLE: a part of a table's rows, each taken or left on its own.

SYSTEM takes rows as BERNOULLI does: there are no pages to take whole. REPEATABLE decides by a hash of the
row's key and the seed, so that the same rows come as long as they are there.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.scope import ScanNeeds, Scope
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType

_METHODS = ("BERNOULLI", "SYSTEM")
_DOUBLE = SqlType(Base.DOUBLE)
_TWO_TO_53 = 1 << 53


def sampled(binder: Binder, scan: ScanNeeds, sample: Any) -> str:
    """A scan's DuckDB text with only the sample's rows.

    Raises SqlError 42704 for other methods, 2202H and 2202G for a share or seed that cannot be.
    """
    method = sample.args.get("method")
    word = str(method.this).upper() if method is not None else ""
    if word not in _METHODS:
        raise SqlError("42704", f"tablesample method {word.lower()} does not exist")
    share = _number(binder, sample.args.get("percent") or sample.args.get("size"), "2202H")
    part = (
        f"CASE WHEN {share} BETWEEN 0 AND 100 THEN {share} / 100 WHEN {share} IS NULL"
        " THEN error('SQLSTATE 2202H: TABLESAMPLE parameter cannot be null')"
        " ELSE error('SQLSTATE 2202H: sample percentage must be between 0 and 100') END"
    )
    drawn = "random()"
    if sample.args.get("seed") is not None:
        seed = _number(binder, sample.args["seed"], "2202G")
        table = scan.table
        keys = ", ".join(f"c{scan.use(position)}" for position in table.key_positions)
        drawn = f"(hash({keys}, {seed}) >> 11) / CAST({_TWO_TO_53} AS DOUBLE)"
    return f"(SELECT * FROM {scan.name} WHERE {drawn} < {part})"


def _number(binder: Binder, node: Any, state: str) -> str:
    """A constant or parameter of the clause; columns are not in its reach."""
    if isinstance(node, exp.Null):
        what = "REPEATABLE parameter" if state == "2202G" else "parameter"
        raise SqlError(state, f"TABLESAMPLE {what} cannot be null")
    return casts.coerce(binder, binder.bind(node, Scope(0, None)), _DOUBLE).sql
