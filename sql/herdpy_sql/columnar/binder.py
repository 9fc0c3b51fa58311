"""The state of one translation: what queries are bound with, and what they bring along.

``queries`` binds SELECTs and FROM, ``trees`` the expressions in them; both are given to the binder, so that
nothing below imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from herdpy_sql.columnar.scope import BoundQuery, ScanNeeds, Scope
from herdpy_sql.duck import MAX_DIGITS, Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.coerce import Params
from herdpy_sql.expr.nodes import Const
from herdpy_sql.types import TEXT, UNKNOWN

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog
    from herdpy_sql.columnar.given import Given
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.library import Resolved

Handler = Callable[["Binder", Any, Scope], Typed]


class QueryHandler(Protocol):
    """What binds a query, as :meth:`Binder.query` says."""

    def __call__(
        self, binder: Binder, node: Any, parent: Scope | None, *, mixed: bool = False, settle: bool = True
    ) -> BoundQuery: ...


MAX_PARAMETER = 9000
"""Numbers above it are marks of ours."""
TRANSACTION_US = 9001
STATEMENT_US = 9002
CONTEXT = 9003
"""The number of what the query's functions look things up in (``contexts``)."""
FIRST_SURROGATE = 9100
_DARING_SCALE = 20
"""With more digits after the point too few are left before it."""
_BOLD_SCALE = 8
"""The same of a result that is to fit 64 bits."""
BOLD_DIGITS = 18
"""What a DECIMAL of 64 bits holds."""
MAX_TEXT = 8 << 20
"""Characters of DuckDB text that a statement may become."""
CAREFUL, DARING, BOLD = range(3)


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A value computed from a parameter at run time, for native comparison with DECIMAL(p, s)."""

    param: int
    precision: int
    scale: int


@dataclass(slots=True)
class Binder:
    """State of one translation.

    Attributes:
        bind_query: binds the queries inside others, for the modules below ``queries``.
        bind_expression: binds an expression to a typed tree, and gives DuckDB's text of it (``trees``).
        daring: from DARING on, NUMERIC results that might have more digits than a DECIMAL are computed as one
            nevertheless, and BOLD ones of short operands in 64 bits; DuckDB tells when one does not fit.
        dared: how daring the result is at least in one place.
        notes: the typed trees of clauses, each with what it is for, where they are asked for.
        level: how many queries are around what is bound.
    """

    catalog: Catalog
    bind_query: QueryHandler
    bind_expression: Handler
    zone: str = "UTC"
    given: Mapping[str, Given] = field(default_factory=dict)
    params: Params = field(default_factory=Params)
    scans: list[ScanNeeds] = field(default_factory=list)
    surrogates: list[Surrogate] = field(default_factory=list)
    routines: list[Resolved] = field(default_factory=list)
    relations: int = 0
    scopes: int = 0
    depth: int = 0
    daring: int = CAREFUL
    dared: int = CAREFUL
    notes: list[tuple[str, Expr]] | None = None
    level: int = 0

    def note(self, label: str, tree: Expr) -> None:
        """Keep a tree, where trees are asked for. An untyped literal is TEXT."""
        if self.notes is not None:
            settled = Const(TEXT, tree.value) if isinstance(tree, Const) and tree.type == UNKNOWN else tree
            self.notes.append(("  " * (self.level - 1) + label, settled))

    def scope(self, parent: Scope | None) -> Scope:
        """A new scope inside ``parent``."""
        self.scopes += 1
        return Scope(self.scopes, parent)

    def digits(self, precision: int, scale: int) -> int:
        """The precision to compute with where a result may have ``precision`` digits."""
        if precision <= MAX_DIGITS or self.daring < DARING or scale > _DARING_SCALE:
            return precision
        self.dared = max(self.dared, DARING)
        return MAX_DIGITS

    def product_digits(self, one: int, other: int, scale: int) -> int:
        """:meth:`digits` of a product of factors of so many digits each."""
        if self.daring < BOLD or max(one, other) > BOLD_DIGITS or scale > _BOLD_SCALE:
            return self.digits(one + other, scale)
        if one + other <= BOLD_DIGITS:
            return one + other
        self.dared = BOLD
        return BOLD_DIGITS

    def alias(self) -> str:
        """A fresh relation alias."""
        self.relations += 1
        return f"t{self.relations}"

    def bind(self, node: exp.Expression, scope: Scope) -> Typed:
        """The node's meaning; SqlError when it has none."""
        self.depth += 1
        if self.depth > 200:
            raise SqlError("54001", "statement is nested too deeply")
        result = self.bind_expression(self, node, scope)
        self.depth -= 1
        return result

    def finished(self, result: Typed, scope: Scope) -> Typed:
        """What those around an expression see of it: one that is grouped by is a value of the group."""
        if len(result.sql) > MAX_TEXT:
            raise too_complex(len(result.sql))
        if scope.grouped and result.vars and result.sql in scope.groups:
            own = scope.number
            rest = frozenset(v for v in result.vars if v[0] != own)
            sql = f"pg_numnorm({result.sql})" if result.is_text_numeric else result.sql
            result = replace(result, sql=sql, vars=rest, scale_sql=None)
        return result

    def query(
        self, node: Any, parent: Scope | None, *, mixed: bool = False, settle: bool = True
    ) -> BoundQuery:
        """A query inside ``parent``.

        ``mixed``: keep display scales in columns of their own rather than turning such values to text.
        ``settle``: untyped columns become TEXT.
        """
        self.level += 1
        found = self.bind_query(self, node, parent, mixed=mixed, settle=settle)
        self.level -= 1
        return found

    def bind_all(self, nodes: Sequence[exp.Expression], scope: Scope) -> list[Typed]:
        """Several nodes."""
        return [self.bind(node, scope) for node in nodes]

    def surrogate(self, number: int, precision: int, scale: int) -> str:
        """DuckDB text of a DECIMAL that compares with DECIMAL(precision, scale) as the parameter does."""
        self.surrogates.append(Surrogate(number, precision, scale))
        mark = FIRST_SURROGATE + len(self.surrogates) - 1
        return f"CAST(${mark} AS DECIMAL({precision + 2},{scale + 1}))"


def too_complex(length: int) -> SqlError:
    """54001: what an expression or a query becomes for DuckDB is too long a text."""
    return SqlError(
        "54001",
        f"statement is too complex: the query made of it has {length} characters, and {MAX_TEXT} are allowed",
        hint="Split the expression, or compute parts of it in a subquery or a table.",
    )
