"""Queries as typed trees: names, types, clauses and groups of any query, whichever engine is to run it.

    query = bind_query(tree, catalog, params)      SELECT, VALUES, TABLE, set operations, WITH

Above ``expr``, whose trees stand in the clauses; below ``columnar``, which makes DuckDB's text of the tree.
``nodes`` has what comes out. Nothing here knows an engine.
"""

from herdpy_sql.bind.queries import bind_query

__all__ = ["bind_query"]
