"""JSON and JSONB: a datum is a text, of JSONB the canonical one. Above ``strings``, below ``forms``."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from herdpy.codec.jsonb import JsonError, canonical_jsonb
from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import Array, Bytes, ColumnForms, DuckForms, TypeForms, always, quote
from herdpy_sql.values.string_columns import as_held
from herdpy_sql.values.strings import check_text, same, text_of


def parse_json(text: str) -> str:
    """``text`` itself when it is JSON; SqlError 22P02 when not, 54001 when it is nested too deeply."""
    check_text(text)
    try:
        _JSON.decode(text)
    except ValueError as error:
        raise SqlError(
            "22P02", "invalid input syntax for type json", detail=f"The input is not JSON: {error}."
        ) from None
    except RecursionError:
        raise SqlError(
            "54001", "stack depth limit exceeded", detail="The JSON is nested too deeply."
        ) from None
    return text


def parse_jsonb(text: str) -> str:
    """The JSONB datum of a JSON text. SqlError 22P02, 22P05 for a NUL in it, 22003, or 54001."""
    try:
        return canonical_jsonb(check_text(text))
    except JsonError as error:
        raise json_error(error) from None


def json_error(error: JsonError) -> SqlError:
    """What PostgreSQL says of it."""
    match error.kind:
        case "nul":
            return SqlError("22P05", "unsupported Unicode escape sequence", detail=str(error))
        case "range":
            return SqlError("22003", str(error))
        case "depth":
            return SqlError("54001", "stack depth limit exceeded", detail=str(error))
        case _:
            return SqlError("22P02", "invalid input syntax for type json", detail=str(error))


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


# Numbers stay text: checking needs no value, and Python refuses to read very long integers.
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _take_json(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_json(plain(value))
    try:
        return check_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SqlError("42804", f"the Python object cannot be written as JSON: {error}") from None
    except RecursionError:
        raise SqlError(
            "54001", "stack depth limit exceeded", detail="The object is nested too deeply."
        ) from None


def _take_jsonb(value: object) -> Any:
    if value is None:
        return None
    return parse_jsonb(plain(value) if isinstance(value, str) else _take_json(value))


def _give(value: str | None) -> object:
    if value is None:
        return None
    try:
        return json.loads(value)
    except ValueError:  # an integer longer than Python reads from text
        return json.loads(value, parse_int=Decimal)


def _unpack_jsonb(data: Bytes) -> str:
    if not data:
        raise SqlError("08P01", "no data left in message")
    if data[0] != 1:
        raise SqlError("XX000", f"unsupported jsonb version number {data[0]}")
    return parse_jsonb(text_of(data[1:]))


def _read_column(strings: Array, *_more: Any) -> Array:
    for text in strings.to_pylist():
        if text is not None:
            parse_json(text)
    return strings


JSON_FORMS: TypeForms = TypeForms(
    columns=ColumnForms(write=as_held, read=_read_column, is_packed=True),
    write=always(same),
    read=always(parse_json),
    take=always(_take_json),
    give=always(_give),
    pack=always(str.encode),
    unpack=always(lambda data: parse_json(text_of(data))),
    duck=DuckForms("VARCHAR", "pg_json", "{}"),
    guessed=(dict, list),
    text_bytes=str.encode,
    lists=True,
)
JSONB_FORMS: TypeForms = TypeForms(
    columns=ColumnForms(write=as_held),
    write=always(same),
    read=always(parse_jsonb),
    take=always(_take_jsonb),
    give=always(_give),
    pack=always(lambda value: b"\1" + value.encode()),
    unpack=always(_unpack_jsonb),
    duck=DuckForms("VARCHAR", text="{}", constant=quote),
    text_bytes=str.encode,
    lists=True,
)
