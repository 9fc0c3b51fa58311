"""generate_series in FROM: numbers or times as a relation of the columnar engine.

The call's syntax tree comes in; a subselect over the macro ``pg_series`` goes out, or over DuckDB's own table
function where it can be: that makes numbers as they are wanted, and ends when it shall; a list is made whole.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.columnar import library, set_returning
from herdpy_sql.columnar.binder import Binder
from herdpy_sql.columnar.functions import no_function
from herdpy_sql.columnar.scope import Col, Item, Rel, Scope
from herdpy_sql.columnar.typed import INTEGERS, Typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import named_call
from herdpy_sql.library import Resolved, resolve
from herdpy_sql.types import BIGINT, TEXT, Base


def bind_series(
    binder: Binder, node: Any, own: str | None, listed: list[str], scope: Scope, ordinality: bool = False
) -> Item:
    """generate_series under an alias, WITH ORDINALITY if asked; SqlError 42883 for other functions."""
    if not isinstance(node, (exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        if isinstance(node, exp.Dot):
            raise SqlError("0A000", f"names of other databases are not supported: {node.sql('postgres')}")
        named = named_call(node)
        if named is not None:
            return _library(binder, *named, own, listed, scope, ordinality=ordinality)
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
        raise SqlError(
            "42883" if isinstance(node, (exp.ReadCSV, exp.ReadParquet, exp.Anonymous)) else "0A000",
            f"function {name} does not exist",
        )
    found = set_returning.series(binder, node, scope)
    alias = binder.alias()
    rel = Rel(own or "generate_series", alias, [])
    in_steps = not ordinality and _is_counted(node, found)
    one = set_returning.element(found, "n" if in_steps else f"unnest({found.sql})")
    items = f"{one.sql} AS c0"
    first = listed[0] if listed else own or "generate_series"
    rel.columns = [Col(first, f"{alias}.c0", one.type, position=0, rel=rel)]
    if ordinality:
        items += f", CAST(generate_subscripts({found.sql}, 1) AS BIGINT) AS c1"
        second = listed[1] if len(listed) > 1 else "ordinality"
        rel.columns.append(Col(second, f"{alias}.c1", BIGINT, position=1, rel=rel))
    if in_steps:
        items += f" FROM generate_{found.sql.removeprefix('pg_')} AS s (n)"
    inner = f"(SELECT {items}) AS {alias}"
    return Item(inner, [rel], list(rel.columns))


def _is_counted(node: Any, found: set_returning.Listed) -> bool:
    """Whether a series is one of integers between ends that no row decides, by steps that are not 0."""
    step = node.args.get("step")
    bare = step.this if isinstance(step, exp.Neg) else step
    return (
        found.one.base in INTEGERS
        and all(_is_given(node.args[end]) for end in ("start", "end"))
        and (bare is None or (isinstance(bare, exp.Literal) and bare.this.strip("0") != ""))
    )


def _is_given(node: Any) -> bool:
    """Whether a value is in the statement's text or among its parameters."""
    while isinstance(node, (exp.Neg, exp.Cast, exp.Paren)):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Parameter, exp.Placeholder))


def _library(
    binder: Binder,
    name: str,
    nodes: list[Any],
    own: str | None,
    listed: list[str],
    scope: Scope,
    *,
    ordinality: bool,
) -> Item:
    """A function of the library as a table: its rows, or the one row that it gives."""
    arguments = binder.bind_all(nodes, scope)
    found = resolve(name, [library.full_type(x) for x in arguments])
    if found is None:
        raise no_function(name, arguments)
    routine = found.routine
    alias = binder.alias()
    rel = Rel(own or name, alias, [])
    given = library.invoke(binder, found, arguments)
    whole = given.sql if routine.setof else f"[{given.sql}]"
    items = f"unnest({whole}) AS c"
    if ordinality:
        items += f", CAST(generate_subscripts({whole}, 1) AS BIGINT) AS n"
    outputs: list[str] = []
    for i, (column, type_) in enumerate(routine.columns or ((own or name, found.result),)):
        shown = listed[i] if i < len(listed) else column
        sql = "c"
        if routine.columns:
            one = Typed(f"c[{i + 1}]", TEXT)
            sql = (
                one.sql
                if type_ in (TEXT,)
                else library.invoke(binder, Resolved("cast", 0, (TEXT,), type_), [one]).sql
            )
        outputs.append(f"{sql} AS c{i}")
        array = type_.dimensions if type_.base is Base.ARRAY else 0
        held = type_.element_type if array else type_
        rel.columns.append(Col(shown, f"{alias}.c{i}", held, array=array, position=i, rel=rel))
    if ordinality:
        at = len(rel.columns)
        outputs.append(f"n AS c{at}")
        shown = listed[at] if at < len(listed) else "ordinality"
        rel.columns.append(Col(shown, f"{alias}.c{at}", BIGINT, position=at, rel=rel))
    inner = f"(SELECT {', '.join(outputs)} FROM (SELECT {items})) AS {alias}"
    return Item(inner, [rel], list(rel.columns))
