"""Random scalar expressions and conditions over the columns in scope."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from diff_values import FAMILIES, FAMILY, FLOATS, INTEGERS, NUMBERS, literal, value


@dataclass
class Column:
    """A column of a generated table; ``default`` is SQL, or None."""

    name: str
    type: str
    not_null: bool = False
    default: str | None = None


@dataclass
class Scope:
    """What names an expression may use, and the parameters it has made so far."""

    rng: random.Random
    columns: list[tuple[str, Column]]  # alias (or "") and column
    params: list[tuple[str, str | None]] = field(default_factory=list)
    with_params: bool = True

    def of(self, *types: str) -> list[str]:
        """References to the columns of these types."""
        return [ref(a, c) for a, c in self.columns if c.type in types]

    def constant(self, type_: str, nulls: float = 0.05) -> str:
        """A literal of a type or a parameter, for a place that gives it its type."""
        text = value(self.rng, type_, nulls)
        if self.with_params and self.rng.random() < 0.4:
            return self.param(type_, text)
        return literal(type_, text, bare=self.rng.random() < 0.5 and type_ not in {"smallint", "real"})

    def param(self, type_: str, text: str | None) -> str:
        """A new parameter."""
        self.params.append((type_, text))
        return f"${len(self.params)}"


def ref(alias: str, column: Column) -> str:
    """A column's name, with its table's where there is one."""
    return f"{alias}.{column.name}" if alias else column.name


def condition(scope: Scope, depth: int = 1) -> str:
    """A condition that raises no error."""
    rng = scope.rng
    if depth > 0 and rng.random() < 0.35:
        op = rng.choice(["AND", "OR", "AND"])
        left, right = condition(scope, depth - 1), condition(scope, depth - 1)
        return f"({left} {op} {right})" if rng.random() < 0.8 else f"NOT ({left} {op} {right})"
    alias, column = rng.choice(scope.columns)
    name, type_ = ref(alias, column), column.type
    if type_ == "json":
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    kind = rng.random()
    if type_ == "boolean" and kind < 0.4:
        return rng.choice(
            [name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT FALSE", f"{name} IS UNKNOWN"]
        )
    if kind < 0.12:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    if kind < 0.27:
        found = ", ".join(scope.constant(type_) for _ in range(rng.randrange(1, 5)))
        return f"{name} {rng.choice(['IN', 'IN', 'NOT IN'])} ({found})"
    if kind < 0.37:
        return f"{name} {rng.choice(['', 'NOT '])}BETWEEN {scope.constant(type_)} AND {scope.constant(type_)}"
    if kind < 0.5:
        others = scope.of(*FAMILIES.get(FAMILY.get(type_, ""), [type_]))
        return f"{name} {operator(rng)} {rng.choice(others)}"
    if kind < 0.58 and type_ in {"text", "character varying(5)"}:
        pattern = rng.choice(["a%", "%b", "_", "%", "", "A_", "%é%", "a\\%"])
        return f"{name} {rng.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} '{pattern}'"
    if kind < 0.64:
        return f"{name} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {scope.constant(type_, 0.3)}"
    if kind < 0.72 and type_ in NUMBERS:
        other = rng.choice(
            ["1.5", "0", "-1", "3000000000", "2.0", "1e0", "7::smallint", "99999999999999999999"]
        )
        return f"{name} {operator(rng)} {other}"
    if kind < 0.77:
        return f"{scope.constant(type_)} {operator(rng)} {name}"
    return f"{name} {operator(rng)} {scope.constant(type_)}"


def operator(rng: random.Random) -> str:
    """A comparison."""
    return rng.choice(["=", "=", "<", "<=", ">", ">=", "<>"])


def expression(scope: Scope, depth: int = 2) -> tuple[str, str]:
    """An expression and its family; it may overflow, divide by zero, and so on."""
    family = scope.rng.choice(["int", "numeric", "float", "text", "bool", "time", "int"])
    return of_family(scope, family, depth), family


def of_family(scope: Scope, family: str, depth: int) -> str:
    """An expression of one family."""
    rng = scope.rng
    if depth <= 0 or rng.random() < 0.25:
        return _leaf(scope, family)

    def one(inner: str) -> str:
        return of_family(scope, inner, depth - 1)

    def case(inner: str) -> str:
        return f"CASE WHEN {one('bool')} THEN {one(inner)} ELSE {one(inner)} END"

    options = {
        "int": lambda: rng.choice(
            [
                lambda: f"({one('int')} {rng.choice('+-*')} {one('int')})",
                lambda: (
                    f"({one('int')} {rng.choice('/%')} {rng.choice(['2', '3', '-7', _leaf(scope, 'int')])})"
                ),
                lambda: f"length({one('text')})",
                lambda: f"abs({one('int')})",
                lambda: f"(- {one('int')})",
                lambda: f"coalesce({one('int')}, {one('int')})",
                lambda: f"nullif({one('int')}, {one('int')})",
                lambda: f"greatest({one('int')}, {one('int')}, 2)",
                lambda: case("int"),
                lambda: f"position({one('text')} IN {one('text')})",
            ]
        )(),
        "numeric": lambda: rng.choice(
            [
                lambda: f"({one('numeric')} {rng.choice('+-*')} {one('numeric')})",
                lambda: f"({one('numeric')} / {rng.choice(['3', '1.7', '-0.25', _leaf(scope, 'int')])})",
                lambda: f"({one('int')} {rng.choice('+-*')} {one('numeric')})",
                lambda: f"round({one('numeric')}, {rng.randrange(-1, 4)})",
                lambda: f"trunc({one('numeric')})",
                lambda: f"({one('int')})::numeric",
                lambda: f"({one('numeric')})::numeric(12,3)",
                lambda: f"({one('numeric')} % 7)",
                lambda: case("numeric"),
            ]
        )(),
        "float": lambda: rng.choice(
            [
                lambda: f"({one('float')} {rng.choice('+-*')} {one('float')})",
                lambda: f"({one('float')} / {rng.choice(['2', '0.5', _leaf(scope, 'float')])})",
                lambda: f"({one('int')})::double precision",
                lambda: f"floor({one('float')})",
                lambda: f"({one('numeric')} + {one('float')})",
                lambda: case("float"),
            ]
        )(),
        "text": lambda: rng.choice(
            [
                lambda: f"({one('text')} || {one('text')})",
                lambda: (
                    f"{rng.choice(['upper', 'lower', 'trim', 'reverse', 'md5', 'initcap'])}({one('text')})"
                ),
                lambda: f"substring({one('text')} FROM {rng.randrange(-1, 4)} FOR {rng.randrange(4)})",
                lambda: f"({one('int')})::text",
                lambda: f"({one('numeric')})::text",
                lambda: f"({one('bool')})::text",
                lambda: f"left({one('text')}, {rng.randrange(-2, 4)})",
                lambda: f"replace({one('text')}, 'a', 'xy')",
                lambda: f"coalesce({one('text')}, 'none')",
                lambda: f"lpad({one('text')}, {rng.randrange(6)}, 'xy')",
                lambda: case("text"),
            ]
        )(),
        "bool": lambda: rng.choice(
            [
                lambda: f"({one('int')} {operator(rng)} {one('numeric')})",
                lambda: f"({one('int')} {operator(rng)} {one('int')})",
                lambda: f"({one('text')} {operator(rng)} {one('text')})",
                lambda: f"({one('bool')} {rng.choice(['AND', 'OR'])} {one('bool')})",
                lambda: f"(NOT {one('bool')})",
                lambda: (
                    f"({one(rng.choice(['int', 'text', 'time', 'float']))} IS {rng.choice(['', 'NOT '])}NULL)"
                ),
                lambda: f"({condition(scope, 0)})",
            ]
        )(),
        "time": lambda: rng.choice(
            [
                lambda: f"coalesce({one('time')}, {one('time')})",
                lambda: f"({one('time')} + {rng.choice(['1', '30', '-400'])})",
                lambda: case("time"),
                lambda: f"greatest({one('time')}, {one('time')})",
            ]
        )(),
    }
    return options[family]()


_CONSTANTS = {
    "int": ["0", "1", "2", "-3", "7", "100000"],
    "numeric": ["1.5", "0.0", "-2.25", "10.000", "123456789.123"],
    "float": ["0.5::double precision", "2::real", "'-1.25'::double precision"],
    "text": ["'a'", "''", "'Ab c'", "'é'", "NULL::text"],
    "bool": ["true", "false", "NULL::boolean"],
    "time": ["date '2020-02-29'", "'1999-12-31'::date"],
}
_TYPES_OF = {
    "int": [t for t in INTEGERS if t != "bigint"] + ["bigint"],
    "numeric": FAMILIES["numeric"],
    "float": sorted(FLOATS),
    "text": ["text", "character varying(5)"],
    "bool": ["boolean"],
    "time": ["date"],
}


def _leaf(scope: Scope, family: str) -> str:
    found = scope.of(*_TYPES_OF[family])
    if found and scope.rng.random() < 0.75:
        return scope.rng.choice(found)
    return scope.rng.choice(_CONSTANTS[family])
