"""FROM in queries over the catalog: system relations, users' tables, functions that give rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.catalog import Table
from herdpy_sql.columnar.query import Scan
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import CatalogObject
from herdpy_sql.system import calls, casts
from herdpy_sql.system.rewriter import Rewriter, folded, function_name, handles, undefined
from herdpy_sql.system_relations import CATALOG, INFORMATION, SystemRelation, find_relation

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog


_OF_SEQUENCE = (
    "SELECT l_value AS last_value, CAST(0 AS BIGINT) AS log_cnt, l_called AS is_called"
    ' FROM "lookup.sequence" WHERE l_oid = {}'
)


def concerns(tree: exp.Expression, catalog: Catalog) -> bool:
    """Whether a query is one over the catalog, or about the server: by what its names mean."""
    ctes = {folded(cte.args["alias"].this) for cte in tree.find_all(exp.CTE)}
    for node in tree.walk():
        if isinstance(node, exp.Table):
            if (
                node.args.get("db") is None
                and isinstance(node.this, exp.Identifier)
                and folded(node.this) in ctes
            ):
                continue
            if _system_relation(node, catalog) is not None or _sequence(node, catalog) is not None:
                return True
        elif isinstance(node, exp.Operator):
            return True
        elif isinstance(node, exp.Dot):
            if isinstance(node.this, exp.Identifier) and node.this.name.lower() in (CATALOG, INFORMATION):
                return True
        elif isinstance(node, exp.Cast):
            if casts.names_system_type(node.args["to"]):
                return True
        else:
            name = function_name(node)
            if name is not None and name in calls.SPECIAL and name not in calls.COMMON:
                return True
    return False


def _system_relation(node: exp.Table, catalog: Catalog) -> SystemRelation | None:
    if not isinstance(node.this, exp.Identifier):
        return None
    schema = node.args.get("db")
    name = folded(node.this)
    if schema is not None:
        return find_relation(folded(schema), name)
    return None if isinstance(catalog.find(None, name), Table) else find_relation(None, name)


def _sequence(node: exp.Table, catalog: Catalog) -> CatalogObject | None:
    """The sequence that a name in FROM means, which is a relation of one row."""
    if not isinstance(node.this, exp.Identifier):
        return None
    schema = node.args.get("db")
    found = catalog.find(None if schema is None else folded(schema), folded(node.this))
    return found if isinstance(found, CatalogObject) and found.kind == "sequence" else None


@handles(exp.Table)
def _table(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if not isinstance(node.this, exp.Identifier):
        return _table_function(rewriter, node)
    name = folded(node.this)
    schema = folded(node.args["db"]) if node.args.get("db") else None
    if node.args.get("catalog"):
        node.set("catalog", None)
    if schema is None and name in rewriter.ctes:
        return None
    relation = _system_relation(node, rewriter.catalog)
    sequence = _sequence(node, rewriter.catalog) if relation is None else None
    if sequence is not None:
        given = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        return exp.Subquery(this=rewriter.template(_OF_SEQUENCE.format(sequence.oid)), alias=given.copy())
    if relation is not None:
        if schema is None:
            rewriter.out.unqualified.add(name)
        rewriter.out.relations[relation.label] = relation
        label = relation.label
    else:
        table = _user_table(rewriter, schema, name)
        label = f"{table.schema}.{table.name}"
    node.set("db", None)
    node.set("this", exp.to_identifier(label, quoted=True))
    if node.args.get("alias") is None:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return None if relation is not None else _with_enums(node, table)


def _with_enums(node: exp.Table, table: Table) -> exp.Expression | None:
    """A table's labels, which come as text, as DuckDB's ENUMs; None for a table without any."""
    casts_: list[exp.Expression] = []
    for column in table.columns:
        if column.type.enum is not None and column.type.element is None:
            name = exp.to_identifier(column.name, quoted=True)
            as_enum = exp.Cast(this=exp.column(name), to=casts.duck_enum(column.type.enum))
            casts_.append(exp.Alias(this=as_enum, alias=name.copy()))
    if not casts_:
        return None
    body = exp.Select(
        expressions=[exp.Star(replace=casts_)], from_=exp.From(this=exp.Table(this=node.this.copy()))
    )
    return exp.Subquery(this=body, alias=node.args["alias"].copy())


def _user_table(rewriter: Rewriter, schema: str | None, name: str) -> Table:
    table = rewriter.catalog.find(schema, name)
    if not isinstance(table, Table):
        shown = f"{schema}.{name}" if schema else name
        raise SqlError("42P01", f'relation "{shown}" does not exist', table=name)
    label = f"{table.schema}.{name}"
    rewriter.out.scans[label] = Scan(label, table, table.visible)
    return table


def _table_function(rewriter: Rewriter, node: Any) -> exp.Expression:
    """A function in FROM: the rows of the list that it gives; its only column has the alias's name."""
    inner = node.this
    if node.args.get("ordinality") and function_name(inner) != "pg_partition_ancestors":
        raise SqlError("0A000", "WITH ORDINALITY is not supported in queries over the catalog")
    relation = calls.TABLES.get(function_name(inner) or "")
    if relation is not None:
        given = node.args.get("alias") or exp.TableAlias(
            this=exp.to_identifier(function_name(inner), quoted=True)
        )
        return exp.Subquery(this=rewriter.template(relation), alias=given.copy())
    if isinstance(inner, exp.Anonymous) and str(inner.this) == calls.LISTED:
        return _listed(rewriter, inner.expressions[0], node.args.get("alias"))
    if isinstance(inner, exp.Unnest | exp.Explode):
        inner = inner.this if isinstance(inner, exp.Explode) else inner.expressions[0]
    elif not _is_set(inner):
        raise undefined(function_name(inner) or inner.sql_name().lower())
    elif isinstance(inner, exp.Anonymous) and str(inner.this) == "unnest":
        inner = inner.expressions[0]
    given = node.args.get("alias")
    name = folded(given.this) if given is not None and given.this is not None else "unnest"
    columns = given.args.get("columns") if given is not None else None
    label = folded(columns[0]) if columns else name
    body = rewriter.template("SELECT unnest(:1)", _as_list(inner))
    alias = exp.TableAlias(
        this=exp.to_identifier(name, quoted=True), columns=[exp.to_identifier(label, quoted=True)]
    )
    return exp.Subquery(this=body, alias=alias)


def _listed(rewriter: Rewriter, rows: exp.Expression, given: exp.Expression | None) -> exp.Expression:
    """The rows of a list of structs, each field a column."""
    body = rewriter.template("SELECT unnest(:1, max_depth := 2)", rows)
    alias = given.copy() if given is not None else exp.TableAlias(this=exp.to_identifier("listed"))
    return exp.Subquery(this=body, alias=alias)


@handles(exp.Lateral)
def _lateral(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    inner = node.this
    if isinstance(inner, exp.Anonymous) and str(inner.this) == calls.LISTED:
        return _listed(rewriter, inner.expressions[0], node.args.get("alias"))
    return None


def _numbered(rewriter: Rewriter, node: Any) -> exp.Expression:
    """``unnest(list) WITH ORDINALITY AS t(element, number)``."""
    rows = rewriter.template("SELECT unnest(:1), generate_subscripts(:1, 1)", node.expressions[0])
    alias = node.args["alias"].copy()
    alias.set("columns", [*alias.args.get("columns", ()), node.args["offset"].copy()])
    return exp.Subquery(this=rows, alias=alias)


def _is_set(node: exp.Expression) -> bool:
    if isinstance(node, exp.GenerateSeries | exp.ExplodingGenerateSeries):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this) in {"unnest", "generate_series"}


def _as_list(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.GenerateSeries | exp.ExplodingGenerateSeries):
        parts = [node.args[key] for key in ("start", "end", "step") if node.args.get(key) is not None]
        return exp.Anonymous(this="generate_series", expressions=parts)
    return node


@handles(exp.Unnest, exp.Explode, exp.GenerateSeries, exp.ExplodingGenerateSeries)
def _set_function(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if isinstance(node.parent, exp.Table):
        return None
    if isinstance(node.args.get("offset"), exp.Identifier) and node.args.get("alias") is not None:
        return _numbered(rewriter, node)
    if isinstance(node, exp.Unnest) and isinstance(node.parent, exp.From | exp.Join | exp.Lateral):
        holder = exp.Table(this=node.copy(), alias=node.args.get("alias"))
        return _table_function(rewriter, holder)
    inner = node
    if isinstance(node, exp.Unnest | exp.Explode):
        inner = node.this if isinstance(node, exp.Explode) else node.expressions[0]
    return exp.Anonymous(this="unnest", expressions=[_as_list(inner)])
