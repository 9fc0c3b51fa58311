"""Functions that make JSON and JSONB: of any datum, of keys and values, of what aggregates gather."""

from __future__ import annotations

from typing import Any

from herdpy.codec.grids import sizes_of
from herdpy.codec.jsonb import quoted
from herdpy_sql.errors import SqlError
from herdpy_sql.library.json_values import json_of, value_of, written
from herdpy_sql.library.routine import Poly, Resolved, add, routine
from herdpy_sql.storage import Clock
from herdpy_sql.types import JSON, JSONB, Base, SqlType, array_of
from herdpy_sql.values import to_text

_PATH = array_of(Base.TEXT)

add(
    "to_jsonb",
    (Poly.ANY,),
    JSONB,
    lambda f, c, v: written(value_of(f.args[0], v, c)),
    typed=True,
    clocked=True,
)
add("to_json", (Poly.ANY,), JSON, lambda f, c, v: json_of(f.args[0], v, c), typed=True, clocked=True)
add("array_to_json", (Poly.ARRAY,), JSON, lambda f, c, v: json_of(f.args[0], v, c), typed=True, clocked=True)


def _pairs(found: Resolved, values: Any) -> list[tuple[str, SqlType, Any]]:
    if len(values) % 2:
        raise SqlError(
            "22023",
            "argument list must have even number of elements",
            hint="The arguments of jsonb_build_object() must consist of alternating keys and values.",
        )
    pairs = []
    for at in range(0, len(values), 2):
        if values[at] is None:
            raise SqlError("22023", f"argument {at + 1}: key must not be null")
        key = found.args[at]
        pairs.append((to_text(key)(values[at]), found.args[at + 1], values[at + 1]))
    return pairs


@routine("jsonb_build_object", (), JSONB, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _build_object(found: Resolved, clock: Clock, *values: Any) -> str:
    return written({key: value_of(type_, one, clock) for key, type_, one in _pairs(found, values)})


@routine("jsonb_build_array", (), JSONB, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _build_array(found: Resolved, clock: Clock, *values: Any) -> str:
    return written([value_of(type_, one, clock) for type_, one in zip(found.args, values, strict=True)])


@routine("json_build_object", (), JSON, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _build_json(found: Resolved, clock: Clock, *values: Any) -> str:
    shown = [f"{quoted(key)} : {json_of(type_, one, clock)}" for key, type_, one in _pairs(found, values)]
    return f"{{{', '.join(shown)}}}"


@routine("json_build_array", (), JSON, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _build_json_array(found: Resolved, clock: Clock, *values: Any) -> str:
    return f"[{', '.join(json_of(t, one, clock) for t, one in zip(found.args, values, strict=True))}]"


@routine("jsonb_object", (_PATH,), JSONB)
def _object(flat: Any) -> str:
    sizes = sizes_of(flat)
    if len(sizes) > 2:
        raise SqlError("2202E", "wrong number of array subscripts")
    if len(sizes) == 2 and sizes[1] != 2:
        raise SqlError("2202E", "array must have two columns")
    if len(flat) % 2:
        raise SqlError("2202E", "array must have even number of elements")
    found: str = _object_of(flat[::2], flat[1::2])
    return found


@routine("jsonb_object", (_PATH, _PATH), JSONB)
def _object_of(keys: Any, values: Any) -> str:
    if len(sizes_of(keys)) > 1 or len(sizes_of(values)) > 1:
        raise SqlError("2202E", "wrong number of array subscripts")
    if len(keys) != len(values):
        raise SqlError("2202E", "mismatched array dimensions")
    if None in keys:
        raise SqlError("22004", "null value not allowed for object key")
    return written(dict(zip(keys, values, strict=True)))


@routine("row_as_json", (), JSON, rest=Poly.ANY, strict=False, typed=True, clocked=True)
def _row(found: Resolved, clock: Clock, *values: Any) -> str:
    shown = [f"{quoted(key)}:{json_of(type_, one, clock)}" for key, type_, one in _pairs(found, values)]
    return f"{{{','.join(shown)}}}"


# What aggregates give of the lists that DuckDB gathers.


@routine("jsonb_of_list", (Poly.ARRAY,), JSONB, typed=True, clocked=True)
def _of_list(found: Resolved, clock: Clock, values: Any) -> str:
    return written(value_of(found.args[0], values, clock))


@routine("json_of_list", (Poly.ARRAY,), JSON, typed=True, clocked=True)
def _json_of_list(found: Resolved, clock: Clock, values: Any) -> str:
    element = found.args[0].element_type
    return f"[{', '.join(json_of(element, one, clock) for one in values)}]"


@routine("json_of_rows", (Poly.ARRAY,), JSON, typed=True, clocked=True)
def _json_of_rows(found: Resolved, clock: Clock, values: Any) -> str:
    element = found.args[0].element_type
    shown = [json_of(element, one, clock) for one in values]
    lines = ["" if i == 0 else ", " if one is None else ", \n " for i, one in enumerate(values)]
    return f"[{''.join(line + one for line, one in zip(lines, shown, strict=True))}]"


@routine("json_of_pairs", (_PATH, Poly.ARRAY), JSON, typed=True, clocked=True)
def _json_of_pairs(found: Resolved, clock: Clock, keys: Any, values: Any) -> str:
    if None in keys:
        raise SqlError("22023", "field name must not be null")
    element = found.args[1].element_type
    shown = [f"{quoted(k)} : {json_of(element, one, clock)}" for k, one in zip(keys, values, strict=True)]
    return "{ " + ", ".join(shown) + " }"


@routine("jsonb_of_pairs", (_PATH, Poly.ARRAY), JSONB, typed=True, clocked=True)
def _of_pairs(found: Resolved, clock: Clock, keys: Any, values: Any) -> str:
    if None in keys:
        raise SqlError("22023", "field name must not be null")
    element = found.args[1].element_type
    return written({key: value_of(element, one, clock) for key, one in zip(keys, values, strict=True)})
