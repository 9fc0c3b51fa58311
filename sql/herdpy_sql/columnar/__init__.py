"""Columnar layer: any SELECT as DuckDB SQL that means what PostgreSQL means, run over Arrow tables.

    query = translate(tree, catalog)            a sqlglot tree (postgres dialect), parameters $1, $2 ...
    tables = {scan.name: snapshot.arrow(scan.table, scan.positions, *scan.bounds(params)) ...}
    answer = query.run(tables, params, clock, limits, interrupt)       an Arrow table
    rows = to_datums(answer, [column.type for column in query.columns])

The tree is bound here, with PostgreSQL's rules for names and types; the text for DuckDB is made
from the bound tree alone (``emission``), so DuckDB sees no name, function or clause that is not known
to mean the same there. ``typed`` describes bound expressions, ``engine`` the locked-down databases.
"""

from herdpy_sql.columnar.engine import Interrupt, Limits
from herdpy_sql.columnar.query import ColumnarQuery, Scan
from herdpy_sql.columnar.transfer import to_datums
from herdpy_sql.columnar.translate import translate

__all__ = ["ColumnarQuery", "Interrupt", "Limits", "Scan", "to_datums", "translate"]
