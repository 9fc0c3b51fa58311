"""Functions and operators of JSONB that give a changed value: parts added, put in place, or taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdpy.codec.jsonb import read_json
from herdpy_sql.errors import SqlError
from herdpy_sql.library.json_values import written
from herdpy_sql.library.routine import add, routine
from herdpy_sql.types import BOOLEAN, INTEGER, JSONB, TEXT, Base, array_of

_PATH = array_of(Base.TEXT)


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
