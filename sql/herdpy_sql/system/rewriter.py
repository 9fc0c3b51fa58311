"""The rewriting of a query over the catalog: a tree is changed, from the leaves up, into one of DuckDB's.

DuckDB follows PostgreSQL in names, clauses and subqueries; what differs has a handler for its class of
node, in the modules ``rewrite_*``. Functions that are not known there are refused (42883), so nothing of
DuckDB's own can be called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from herdpy_sql.columnar import literals
from herdpy_sql.errors import SqlError
from herdpy_sql.system.actions import SessionAction
from herdpy_sql.system_relations import CATALOG, SystemRelation, find_relation
from herdpy_sql.types import UNKNOWN, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
from herdpy_sql.columnar.query import Scan

VECTORS = frozenset({"indkey", "indclass", "indoption", "indcollation", "proargtypes"})
"""Columns that are vectors: they count from 0 and are written without braces."""
# Functions that sqlglot has classes for; the others come as Anonymous and are looked up by name.
_CLASSES = frozenset(
    """Abs All And Anonymous Any Array ArrayAgg ArrayAppend ArrayConcat ArrayLength ArrayPosition
    ArrayRemove ArraySize ArrayToString Ascii Avg Case Cast Ceil Chr Coalesce Collate Concat ConcatWs
    Count CurrentCatalog CurrentDatabase CurrentDate CurrentRole CurrentSchema CurrentSchemas
    CurrentTimestamp CurrentUser CurrentVersion DateTrunc DenseRank Exists Explode
    ExplodingGenerateSeries Extract FirstValue Floor Format GenerateSeries Greatest GroupConcat If
    Initcap Interval Lag LastValue Lead Least Left Length LogicalAnd LogicalOr Lower MD5 Max Min Mod Not
    Nullif Or Overlay Pad ParameterizedAgg Pow Rank RegexpILike RegexpLike RegexpReplace Repeat Replace
    Reverse Right Round RowNumber SessionUser Sign SplitPart StartsWith StrPosition StringToArray
    Substring Sum TimeToStr TimestampTrunc Translate Trim Unicode Unnest Upper Xor""".split()  # noqa: SIM905 - a list of words
)
_NAMED = {
    "CurrentUser": "current_user", "SessionUser": "session_user", "CurrentSchema": "current_schema",
    "CurrentSchemas": "current_schemas", "CurrentCatalog": "current_catalog", "CurrentRole": "current_role",
    "CurrentDatabase": "current_database", "CurrentVersion": "version",
    "ArrayToString": "array_to_string", "ArrayLength": "array_length", "ArraySize": "array_length",
    "ArrayPosition": "array_position", "ArrayAppend": "array_append", "ArrayConcat": "array_cat",
    "ArrayRemove": "array_remove", "Format": "format",
}  # fmt: skip
_KEYWORDS = frozenset({"user", "current_role", "current_catalog", "session_user", "current_user"})
HOLE = re.compile(r":(\d)")


@dataclass
class Rewritten:
    """What a query needs to be run: filled while its tree is rewritten.

    Attributes:
        relations: system relations by the name that the text has for them.
        lookups: names of relations that only our functions read.
        scans: users' tables that it reads too.
        params: the types of the statement's parameters by number.
        values: attributes of the session's state that the text has parameters for.
        actions: what is to be done, each giving the value of a parameter of the text.
        unqualified: names of system relations that stood without a schema.
    """

    catalog: Catalog
    relations: dict[str, SystemRelation] = field(default_factory=dict)
    lookups: set[str] = field(default_factory=set)
    scans: dict[str, Scan] = field(default_factory=dict)
    params: dict[int, SqlType] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    values: set[str] = field(default_factory=set)
    actions: list[SessionAction] = field(default_factory=list)
    unqualified: set[str] = field(default_factory=set)


def function_name(node: Any) -> str | None:
    """PostgreSQL's name of a call, or None for what is no call (or one that needs no care)."""
    named = _NAMED.get(type(node).__name__)
    if named is not None:
        return named
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    if isinstance(node, exp.Column) and not node.args.get("table") and isinstance(node.this, exp.Identifier):
        name = str(node.this.this).lower()
        if name in _KEYWORDS and not node.this.args.get("quoted"):
            return name
    return None


def folded(node: exp.Expression) -> str:
    """A name, in lower case unless it was quoted."""
    if isinstance(node, exp.Identifier) and node.args.get("quoted"):
        return str(node.this)
    return node.name.lower()


Handler = Callable[["Rewriter", Any], "exp.Expression | None"]
HANDLERS: dict[type[Any], Handler] = {}


def handles(*classes: type[exp.Expression]) -> Callable[[Handler], Handler]:
    """Register what rewrites nodes of these classes: gives the replacement, or None to leave it."""

    def register(handler: Handler) -> Handler:
        for cls in classes:
            HANDLERS[cls] = handler
        return handler

    return register


class Rewriter:
    """Rewrites one tree."""

    def __init__(self, catalog: Catalog, param_types: Sequence[SqlType]) -> None:
        self.catalog = catalog
        self.out = Rewritten(catalog)
        self.out.params.update(dict(enumerate(param_types, 1)))
        self.ctes: set[str] = set()
        self.vectors = VECTORS

    def rewrite(self, tree: exp.Expression) -> str:
        """The DuckDB text of a tree, which is changed. SqlError."""
        self.ctes = {folded(cte.args["alias"].this) for cte in tree.find_all(exp.CTE)}
        self.vectors = VECTORS | {
            alias.alias.lower()
            for alias in tree.find_all(exp.Alias)
            if isinstance(alias.this, exp.Column) and alias.this.name in VECTORS
        }
        holder = exp.Paren(this=tree)
        for node in reversed(list(tree.bfs())):
            if isinstance(node, exp.Func) and type(node).__name__ not in _CLASSES:
                raise undefined(node.sql_name().lower())
            handler = HANDLERS.get(type(node))
            if handler is None and function_name(node) is not None:
                handler = HANDLERS[exp.Anonymous]
            if handler is not None:
                new = handler(self, node)
                if new is not None and new is not node:
                    node.replace(new)
        final = holder.this
        for identifier in final.find_all(exp.Identifier):
            if not identifier.args.get("quoted"):
                identifier.set("this", str(identifier.this).lower())
        return str(final.sql("duckdb", identify=True))

    def template(self, text: str, *arguments: exp.Expression) -> exp.Expression:
        """DuckDB text as a tree, with ``:1`` and so on replaced."""
        for lookup in re.findall(r'"lookup\.(\w+)"', text):
            self.out.lookups.add(lookup)
        for name in re.findall(r'"pg_catalog\.(\w+)"', text):
            relation = find_relation(CATALOG, name)
            assert relation is not None
            self.out.relations[relation.label] = relation
        if "$s_asked" in text:
            self.out.values.add("asked")
        marked = HOLE.sub(r"__hole\1", text)
        holder = exp.Paren(this=sqlglot.parse_one(marked, dialect="duckdb"))
        for column in list(holder.find_all(exp.Column)):
            if column.name.startswith("__hole"):
                column.replace(arguments[int(column.name[6:]) - 1].copy())
        found: exp.Expression = holder.this
        return exp.Paren(this=found) if isinstance(found, exp.Case | exp.Binary) else found

    def value(self, attribute: str, duck: str) -> exp.Expression:
        """A value of the session's state."""
        if not attribute:
            return self.template(f"CAST(NULL AS {duck})")
        self.out.values.add(attribute)
        if duck == "TIMESTAMPTZ":
            return self.template(f"make_timestamptz($s_{attribute})")
        return self.template(f"CAST($s_{attribute} AS {duck})")

    def parameter(self, number: int, wanted: SqlType) -> exp.Expression:
        """A parameter of the statement; the first place that says so decides its type."""
        known = self.out.params.get(number, UNKNOWN)
        if known.base is Base.UNKNOWN:
            known = self.out.params[number] = wanted
        self.out.used.add(number)
        text = literals.parameter(number, known).sql.replace(f"${number}", f"$p{number}")
        found: Any = sqlglot.parse_one(text, dialect="duckdb")
        return found  # type: ignore[no-any-return]


def undefined(name: str) -> SqlError:
    """42883."""
    return SqlError("42883", f"function {name} does not exist")
