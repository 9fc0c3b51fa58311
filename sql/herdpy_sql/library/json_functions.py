"""Functions and operators of JSON and JSONB: taken apart, looked into, made of data, changed.

A JSONB datum is its one text, a JSON datum any text. Parts of a JSON document are cut out as they were
written; texts were checked when they became JSON, so what is read here is well formed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from herdpy.codec.jsonb import JsonError, jsonb_text, quoted, read_json
from herdpy.codec.kinds import Grid, nested, parts_of, sizes_of
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import Poly, Resolved, add, routine
from herdpy_sql.types import BOOLEAN, INTEGER, JSON, JSONB, TEXT, Base, SqlType, array_of
from herdpy_sql.values import to_text
from herdpy_sql.values.json_texts import json_error
from herdpy_sql.values.moment_output import styled_timestamptz
from herdpy_sql.values.styles import in_zone

_NUMBERS = frozenset({Base.SMALLINT, Base.INTEGER, Base.BIGINT, Base.NUMERIC, Base.REAL, Base.DOUBLE})


def written(value: Any) -> str:
    """A value as a JSONB datum. SqlError where it cannot be one."""
    try:
        return jsonb_text(value)
    except JsonError as error:
        raise json_error(error) from None


def as_text(value: Any) -> str | None:
    """What ->> gives of a value."""
    return None if value is None else value if isinstance(value, str) else written(value)


def value_of(type_: SqlType, datum: Any, clock: Clock | None = None) -> Any:
    """A datum as a value of JSON (to_jsonb): numbers and booleans as such, all else as text."""
    if datum is None or type_.base is Base.BOOLEAN:
        return datum
    if type_.base is Base.ARRAY:
        element = type_.element_type
        return nested(datum, lambda one: value_of(element, one, clock))
    if type_.base in {Base.JSON, Base.JSONB}:
        return read_json(datum)
    text = to_text(type_)(datum)
    if type_.base in _NUMBERS:
        return Decimal(text) if text.lower() not in {"nan", "infinity", "-infinity"} else text
    if type_.base in {Base.TIMESTAMP, Base.TIMESTAMPTZ}:
        if type_.base is Base.TIMESTAMPTZ:
            text = styled_timestamptz(datum, in_zone(clock.zone if clock else "UTC"))
            text = text + ":00" if text[-3:-2] in "+-" else text
        return text.replace(" ", "T", 1)
    return text


def json_of(type_: SqlType, datum: Any, clock: Clock) -> str:
    """The JSON (not JSONB) text of a datum: no blanks."""
    if type_.base in {Base.JSON, Base.JSONB} and datum is not None:
        return str(datum)
    if type_.base is Base.ARRAY and datum is not None:
        inner = type_ if isinstance(datum, Grid) else type_.element_type
        return f"[{','.join(json_of(inner, one, clock) for one in parts_of(datum))}]"
    if type_.base in _NUMBERS and datum is not None:
        text = to_text(type_)(datum)
        return text if text[-1].isdigit() else f'"{text}"'
    return written(value_of(type_, datum, clock))


_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def members(text: str) -> list[tuple[str, str]] | None:
    """The members of an object as they come, several under one key, too; None of all else."""
    at = _after_blanks(text, 0)
    if text[at] != "{":
        return None
    found: list[tuple[str, str]] = []
    at = _after_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _after_blanks(text, _after_blanks(text, at) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        found.append((key, text[start:end]))
        at = _after_blanks(text, end)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return found


def elements(text: str) -> list[str] | None:
    """The elements of an array; None of all else."""
    at = _after_blanks(text, 0)
    if text[at] != "[":
        return None
    found: list[str] = []
    at = _after_blanks(text, at + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        found.append(text[at:end])
        at = _after_blanks(text, end)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return found


def member(text: str, key: str) -> str | None:
    """The last member under a key; None where there is none."""
    return dict(members(text) or ()).get(key)


def element(text: str, at: int) -> str | None:
    """The element at an index, from the end when it is negative; None where there is none."""
    found = elements(text) or []
    return found[at] if -len(found) <= at < len(found) else None


def at_path(text: str, path: Any) -> str | None:
    """What is under keys and indexes, one in another; None where there is nothing."""
    found: str | None = text
    for step in path:
        if found is None or step is None:
            return None
        try:
            found = element(found, int(step)) if elements(found) is not None else member(found, step)
        except ValueError:
            return None
    return found


def shown(text: str) -> str | None:
    """What ->> gives of a value: a string's characters, NULL of null, else its text."""
    at = _after_blanks(text, 0)
    if text[at] == '"':
        return str(_DECODER.raw_decode(text, at)[0])
    return None if text.strip() == "null" else text


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


_KINDS = {
    bool: "boolean",
    Decimal: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _typeof(text: str) -> str:
    return _KINDS[type(read_json(text))]


def _length(text: str) -> int:
    value = read_json(text)
    if isinstance(value, dict):
        raise SqlError("22023", "cannot get array length of a non-array")
    if not isinstance(value, list):
        raise SqlError("22023", "cannot get array length of a scalar")
    return len(value)


def _elements(word: str, show: Callable[[Any], Any]) -> Callable[[str], Any]:
    def run(text: str) -> Any:
        written_so = elements(text) if word == "json" else None
        if written_so is not None:
            return tuple([show(one) for one in written_so])
        value = read_json(text)
        if not isinstance(value, list):
            kind = "an object" if isinstance(value, dict) else "a scalar"
            raise SqlError("22023", f"cannot extract elements from {kind}")
        return tuple([show(one) for one in value])

    return run


def _members(what: str, show: Callable[[Any], Any]) -> Callable[[str], Any]:
    def run(text: str) -> Any:
        written_so = None if what.startswith("jsonb") else members(text)
        if written_so is not None:
            return tuple([(key, show(one)) for key, one in written_so])
        value = read_json(text)
        if not isinstance(value, dict):
            raise SqlError("22023", f"cannot call {what} on a non-object")
        return tuple([(key, show(one)) for key, one in value.items()])

    return run


def _keys(word: str) -> Callable[[str], Any]:
    def keys(text: str) -> Any:
        value = read_json(text)
        if not isinstance(value, dict):
            kind = "an array" if isinstance(value, list) else "a scalar"
            raise SqlError("22023", f"cannot call {word}_object_keys on {kind}")
        return tuple([key for key, _ in members(text) or ()]) if word == "json" else tuple(value)

    return keys


for _type in (JSONB, JSON):
    _word = "jsonb" if _type is JSONB else "json"
    _whole: Callable[[Any], Any] = written if _type is JSONB else str
    _text: Callable[[Any], Any] = as_text if _type is JSONB else shown
    add(f"{_word}_typeof", (_type,), TEXT, _typeof)
    add(f"{_word}_array_length", (_type,), INTEGER, _length)
    add(f"{_word}_array_elements", (_type,), _type, _elements(_word, _whole), setof=True)
    add(f"{_word}_array_elements_text", (_type,), TEXT, _elements(_word, _text), setof=True)
    add(f"{_word}_object_keys", (_type,), TEXT, _keys(_word), setof=True)
    for _ending, _show, _result in (("", _whole, _type), ("_text", _text, TEXT)):
        _full = f"{_word}_each{_ending}"
        add(
            _full,
            (_type,),
            TEXT,
            _members(_full, _show),
            setof=True,
            columns=(("key", TEXT), ("value", _result)),
        )


@routine("jsonb_pretty", (JSONB,), TEXT)
def _pretty(text: str) -> str:
    return "".join(_indented(read_json(text), 0))


def _indented(value: Any, depth: int) -> list[str]:
    inner, outer = "\n" + "    " * (depth + 1), "\n" + "    " * depth
    if isinstance(value, dict | list):
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        out: list[str] = [opened]
        items: Any = value.items() if isinstance(value, dict) else [(None, one) for one in value]
        for i, (key, one) in enumerate(items):
            out += ["," if i else "", inner, "" if key is None else f"{quoted(key)}: "]
            out += _indented(one, depth + 1)
        return [*out, outer, closed]
    return [written(value)]


_PATH = array_of(Base.TEXT)
_MISSING = object()


def _step(value: Any, step: str) -> Any:
    """What is under a key or an index that is written as text."""
    if isinstance(value, dict):
        return value.get(step, _MISSING)
    if isinstance(value, list):
        try:
            at = int(step)
        except ValueError:
            return _MISSING
        return value[at] if -len(value) <= at < len(value) else _MISSING
    return _MISSING


def _member(text: str, key: str) -> Any:
    value = read_json(text)
    return value.get(key, _MISSING) if isinstance(value, dict) else _MISSING


def _element(text: str, at: int) -> Any:
    value = read_json(text)
    return value[at] if isinstance(value, list) and -len(value) <= at < len(value) else _MISSING


def _at(text: str, path: Any) -> Any:
    value = read_json(text)
    for step in path:
        if step is None:
            return _MISSING
        value = _step(value, step)
        if value is _MISSING:
            return _MISSING
    return value


def _found(get: Callable[..., Any], show: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        value = get(*args)
        return None if value is _MISSING else show(value)

    return run


def _shown(get: Callable[..., str | None]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        found = get(*args)
        return None if found is None else shown(found)

    return run


add("->", (JSONB, INTEGER), JSONB, _found(_element, written))
add("->", (JSONB, TEXT), JSONB, _found(_member, written))
add("->>", (JSONB, INTEGER), TEXT, _found(_element, as_text))
add("->>", (JSONB, TEXT), TEXT, _found(_member, as_text))
add("#>", (JSONB, _PATH), JSONB, _found(_at, written))
add("#>>", (JSONB, _PATH), TEXT, _found(_at, as_text))
add("jsonb_extract_path", (JSONB,), JSONB, _found(lambda t, *p: _at(t, p), written), rest=TEXT)
add("jsonb_extract_path_text", (JSONB,), TEXT, _found(lambda t, *p: _at(t, p), as_text), rest=TEXT)
# A part of JSON is as it was written.
add("->", (JSON, INTEGER), JSON, element)
add("->", (JSON, TEXT), JSON, member)
add("->>", (JSON, INTEGER), TEXT, _shown(element))
add("->>", (JSON, TEXT), TEXT, _shown(member))
add("#>", (JSON, _PATH), JSON, at_path)
add("#>>", (JSON, _PATH), TEXT, _shown(at_path))
add("json_extract_path", (JSON,), JSON, lambda t, *p: at_path(t, p), rest=TEXT)
add("json_extract_path_text", (JSON,), TEXT, _shown(lambda t, *p: at_path(t, p)), rest=TEXT)
add("subscript", (JSONB, INTEGER), JSONB, _found(_element, written))
add("subscript", (JSONB, TEXT), JSONB, _found(lambda t, k: _step(read_json(t), k), written))


# Containment, keys.


def _contains(whole: Any, part: Any, *, top: bool = True) -> bool:
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and _contains(whole[key], one, top=False) for key, one in part.items())
    if isinstance(whole, list):
        if isinstance(part, list):
            return all(any(_contains(one, wanted, top=False) for one in whole) for wanted in part)
        return top and not isinstance(part, dict) and any(_same(one, part) for one in whole)
    return not isinstance(part, list | dict) and _same(whole, part)


def _same(one: Any, other: Any) -> bool:
    return (
        isinstance(one, bool) == isinstance(other, bool) and type(one) is type(other) and bool(one == other)
    )


def _has(text: str, key: str) -> bool:
    value = read_json(text)
    return key in value if isinstance(value, dict | list) else value == key


add("@>", (JSONB, JSONB), BOOLEAN, lambda a, b: _contains(read_json(a), read_json(b)))
add("<@", (JSONB, JSONB), BOOLEAN, lambda a, b: _contains(read_json(b), read_json(a)))
add("?", (JSONB, TEXT), BOOLEAN, _has)
add("?|", (JSONB, _PATH), BOOLEAN, lambda t, keys: any(k is not None and _has(t, k) for k in keys))
add("?&", (JSONB, _PATH), BOOLEAN, lambda t, keys: all(k is None or _has(t, k) for k in keys))


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


@routine("||", (JSONB, JSONB), JSONB)
def _concat(left: str, right: str) -> str:
    a, b = read_json(left), read_json(right)
    if isinstance(a, dict) and isinstance(b, dict):
        return written(a | b)
    return written((a if isinstance(a, list) else [a]) + (b if isinstance(b, list) else [b]))


def _scalar(what: str) -> SqlError:
    return SqlError("22023", f"cannot {what}")


@routine("-", (JSONB, TEXT), JSONB)
def _without(text: str, key: str) -> str:
    found: str = _without_all(text, (key,))
    return found


@routine("-", (JSONB, INTEGER), JSONB)
def _without_element(text: str, at: int) -> str:
    value = read_json(text)
    if isinstance(value, dict):
        raise _scalar("delete from object using integer index")
    if not isinstance(value, list):
        raise _scalar("delete from scalar")
    if -len(value) <= at < len(value):
        del value[at]
    return written(value)


@routine("-", (JSONB, _PATH), JSONB)
def _without_all(text: str, keys: Any) -> str:
    value = read_json(text)
    if isinstance(value, dict):
        return written({key: one for key, one in value.items() if key not in keys})
    if isinstance(value, list):
        return written([one for one in value if not (isinstance(one, str) and one in keys)])
    raise _scalar("delete from scalar")


@routine("#-", (JSONB, _PATH), JSONB)
def _without_path(text: str, path: Any) -> str:
    value = read_json(text)
    if not isinstance(value, dict | list):
        raise _scalar("delete path in scalar")
    _change(
        value,
        path,
        lambda holder, step: holder.pop(step, None) if isinstance(holder, dict) else holder.pop(step),
    )
    return written(value)


def _index(holder: list[Any], step: str, place: int) -> int:
    try:
        return int(step)
    except ValueError:
        raise SqlError("22P02", f'path element at position {place} is not an integer: "{step}"') from None


def _change(
    value: Any, path: Any, act: Callable[[Any, Any], Any], *, missing: Callable[[Any, Any], Any] | None = None
) -> None:
    """Follow a path to what holds its end, and act on that; nothing when there is no way there."""
    for place, step in enumerate(path):
        if step is None:
            raise SqlError("22004", f"path element at position {place + 1} is null")
        last = place == len(path) - 1
        if isinstance(value, dict):
            if last:
                act(value, step) if step in value else (missing and missing(value, step))
                return
            if step not in value:
                return
            value = value[step]
        elif isinstance(value, list):
            at = _index(value, step, place + 1)
            inside = -len(value) <= at < len(value)
            if last:
                act(value, at) if inside else (missing and missing(value, at))
                return
            if not inside:
                return
            value = value[at]
        else:
            return


def _put(holder: Any, step: Any, new: Any) -> None:
    if isinstance(holder, dict):
        holder[step] = new
    elif step < 0:
        holder.insert(0, new)
    else:
        holder.append(new)


def _assign(holder: Any, step: Any, new: Any) -> None:
    holder[step] = new


@routine("jsonb_set", (JSONB, _PATH, JSONB), JSONB)
def _set(text: str, path: Any, new: str, create: bool = True) -> str:
    value, made = read_json(text), read_json(new)
    if not isinstance(value, dict | list):
        raise _scalar("set path in scalar")
    _change(
        value,
        path,
        lambda holder, step: _assign(holder, step, made),
        missing=(lambda holder, step: _put(holder, step, made)) if create else None,
    )
    return written(value)


add("jsonb_set", (JSONB, _PATH, JSONB, BOOLEAN), JSONB, _set)


@routine("jsonb_insert", (JSONB, _PATH, JSONB), JSONB)
def _insert(text: str, path: Any, new: str, after: bool = False) -> str:
    value, made = read_json(text), read_json(new)
    if not isinstance(value, dict | list):
        raise _scalar("set path in scalar")

    def there(holder: Any, step: Any) -> None:
        if isinstance(holder, dict):
            raise SqlError(
                "22023",
                "cannot replace existing key",
                hint="Try using the function jsonb_set to replace key value.",
            )
        holder.insert((step if step >= 0 else len(holder) + step) + after, made)

    _change(value, path, there, missing=lambda holder, step: _put(holder, step, made))
    return written(value)


add("jsonb_insert", (JSONB, _PATH, JSONB, BOOLEAN), JSONB, _insert)


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(one) for key, one in value.items() if one is not None}
    return [_stripped(one) for one in value] if isinstance(value, list) else value


add("jsonb_strip_nulls", (JSONB,), JSONB, lambda text: written(_stripped(read_json(text))))


@routine("jsonb_set_lax", (JSONB, _PATH, JSONB), JSONB, strict=False)
def _set_lax(
    text: str | None,
    path: Any,
    new: str | None,
    create: bool | None = True,
    treatment: str | None = "use_json_null",
) -> str | None:
    if text is None or path is None or create is None:
        return None
    if treatment not in _TREATMENTS:
        words = '"delete_key", "return_target", "use_json_null", or "raise_exception"'
        raise SqlError("22004" if treatment is None else "22023", f"null_value_treatment must be {words}")
    if new is not None or treatment == "use_json_null":
        found: str = _set(text, path, "null" if new is None else new, create)
        return found
    if treatment == "raise_exception":
        raise SqlError(
            "22004",
            "JSON value must not be null",
            detail='Exception was raised because null_value_treatment is "raise_exception".',
            hint="To avoid, either change the null_value_treatment argument "
            "or ensure that an SQL NULL is not passed.",
        )
    if treatment == "delete_key":
        without: str = _without_path(text, path)
        return without
    return text


_TREATMENTS = frozenset({"use_json_null", "delete_key", "return_target", "raise_exception"})
add("jsonb_set_lax", (JSONB, _PATH, JSONB, BOOLEAN), JSONB, _set_lax, strict=False)
add("jsonb_set_lax", (JSONB, _PATH, JSONB, BOOLEAN, TEXT), JSONB, _set_lax, strict=False)
