"""The functions: candidates by name, as :mod:`operators` has them for operators.

Upper and lower case change ASCII letters only, which is what PostgreSQL does under the C collation
and needs no tables that differ between versions. Random functions have no candidates here.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import extracts, integers, numeric
from herdpy_sql.expr.nodes import NOT_OWN, Function
from herdpy_sql.expr.operators import FLOATS, INTS, float_power
from herdpy_sql.expr.resolve import Signature
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import letter_case
from herdpy_sql.values.integers import INTEGER_RANGES

if TYPE_CHECKING:
    from collections.abc import Callable

B = Base
_LONGEST = 256 * 1024 * 1024


def _one(name: str, args: tuple[Base, ...], result: SqlType, implementation: Callable[..., Any]) -> Signature:
    return Signature(args, result, Function(name, implementation))


def _substring(text: Any, start: int, length: int | None = None) -> Any:
    if length is None:
        return text[max(start - 1, 0) :]
    if length < 0:
        raise SqlError("22011", "negative substring length not allowed")
    end = start - 1 + length
    return text[max(start - 1, 0) : max(end, 0)]


def _left(text: str, count: int) -> str:
    return text[:count]


def _right(text: str, count: int) -> str:
    if count < 0:
        return text[-count:]
    return text[len(text) - count :] if count < len(text) else text


def _repeat(text: str, count: int) -> str:
    if count > 0 and len(text) * count > _LONGEST:
        raise SqlError("54000", "requested length too large")
    return text * count


def _pad(text: str, length: int, fill: str, *, left: bool) -> str:
    if length > _LONGEST:
        raise SqlError("54000", "requested length too large")
    length = max(length, 0)
    missing = length - len(text)
    if missing <= 0 or not fill:
        return text[:length]
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + text if left else text + padding


def _replace(text: str, old: str, new: str) -> str:
    if old and len(new) > len(old) and len(text) + text.count(old) * len(new) > _LONGEST:
        raise SqlError("54000", "requested length too large")
    return text.replace(old, new) if old else text


def _split_part(text: str, delimiter: str, place: int) -> str:
    if place == 0:
        raise SqlError("22023", "field position must not be zero")
    parts = text.split(delimiter) if delimiter else [text]
    if not text or abs(place) > len(parts):
        return ""
    return parts[place - 1 if place > 0 else place]


def _chr(code: int) -> str:
    if code == 0:
        raise SqlError("54000", "null character not permitted")
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise SqlError("54000", f"requested character too large for encoding: {code}")
    return chr(code)


def _encode(data: bytes, form: str) -> str:
    if form.lower() != "hex":
        raise SqlError("0A000", f'encoding "{form}" is not supported')
    return data.hex()


def _float_round(value: float) -> float:
    return math.copysign(round(value), value) if math.isfinite(value) else value


def _whole(operation: Callable[[float], float]) -> Callable[[float], float]:
    """``math.floor`` and its like over every float: large ones, infinities and NaN are whole already."""

    def run(value: float) -> float:
        return math.copysign(float(operation(value)), value) if abs(value) < 2**53 else value

    return run


def _sqrt(value: float) -> float:
    if value < 0:
        raise SqlError("2201F", "cannot take square root of a negative number")
    return math.sqrt(value)


def _sign(value: float) -> float:
    return 1.0 if value > 0 else -1.0 if value < 0 else 0.0  # 0 of NaN too


def _gcd(base: Base) -> Callable[[int, int], int]:
    high = INTEGER_RANGES[base][1]

    def run(left: int, right: int) -> int:
        result = math.gcd(left, right)
        if result > high:
            raise integers.out_of_range(base)
        return result

    return run


def _text(name: str, extra: tuple[Base, ...], result: SqlType, run: Callable[..., Any]) -> list[Signature]:
    return [_one(name, (B.TEXT, *extra), result, run)]


def _trim(name: str, strip: Callable[[str, str], str]) -> list[Signature]:
    return [
        _one(name, (B.TEXT,), t.TEXT, lambda text: strip(text, " ")),
        _one(name, (B.TEXT, B.TEXT), t.TEXT, lambda text, letters: strip(text, letters) if letters else text),
    ]


def _rounding(
    name: str, of_float: Callable[[float], float], of_numeric: Callable[..., Any], *, digits: bool
) -> list[Signature]:
    signatures = [_one(name, (B.DOUBLE,), t.DOUBLE, of_float)]
    if digits:
        signatures.append(_one(name, (B.NUMERIC,), t.NUMERIC, lambda value: of_numeric(value, 0)))
        signatures.append(_one(name, (B.NUMERIC, B.INTEGER), t.NUMERIC, of_numeric))
    else:
        signatures.append(_one(name, (B.NUMERIC,), t.NUMERIC, of_numeric))
    return signatures


FUNCTIONS: dict[str, list[Signature]] = {
    "abs": [
        *(_one("abs", (base,), SqlType(base), integers.absolute(base)) for base in INTS),
        *(_one("abs", (base,), SqlType(base), abs) for base in FLOATS),
        _one("abs", (B.NUMERIC,), t.NUMERIC, numeric.absolute),
    ],
    "sign": [
        _one("sign", (B.DOUBLE,), t.DOUBLE, _sign),
        _one("sign", (B.NUMERIC,), t.NUMERIC, numeric.sign),
    ],
    "ceil": _rounding("ceil", _whole(math.ceil), numeric.ceiling, digits=False),
    "floor": _rounding("floor", _whole(math.floor), numeric.floor, digits=False),
    "round": _rounding("round", _float_round, numeric.round_to, digits=True),
    "trunc": _rounding("trunc", _whole(math.trunc), numeric.truncate_to, digits=True),
    "mod": [
        *(_one("mod", (base, base), SqlType(base), integers.remainder) for base in INTS),
        _one("mod", (B.NUMERIC, B.NUMERIC), t.NUMERIC, numeric.remainder),
    ],
    "div": [_one("div", (B.NUMERIC, B.NUMERIC), t.NUMERIC, numeric.whole_quotient)],
    "gcd": [
        *(_one("gcd", (base, base), SqlType(base), _gcd(base)) for base in INTS[1:]),
        Signature((B.NUMERIC, B.NUMERIC), t.NUMERIC, NOT_OWN),
    ],
    "power": [
        _one("power", (B.DOUBLE, B.DOUBLE), t.DOUBLE, float_power),
        Signature((B.NUMERIC, B.NUMERIC), t.NUMERIC, NOT_OWN),
    ],
    "sqrt": [_one("sqrt", (B.DOUBLE,), t.DOUBLE, _sqrt), Signature((B.NUMERIC,), t.NUMERIC, NOT_OWN)],
    "length": [
        _one("length", (B.TEXT,), t.INTEGER, len),
        _one("length", (B.CHAR,), t.INTEGER, len),
        _one("length", (B.BYTEA,), t.INTEGER, len),
    ],
    "octet_length": [
        _one("octet_length", (B.TEXT,), t.INTEGER, lambda text: len(text.encode())),
        _one("octet_length", (B.BYTEA,), t.INTEGER, len),
        Signature((B.CHAR,), t.INTEGER, NOT_OWN),
    ],
    "lower": _text("lower", (), t.TEXT, letter_case.lower),
    "upper": _text("upper", (), t.TEXT, letter_case.upper),
    "substring": [
        _one("substring", (base, *counts), SqlType(base), _substring)
        for base in (B.TEXT, B.BYTEA)
        for counts in ((B.INTEGER,), (B.INTEGER, B.INTEGER))
    ]
    + [Signature((B.TEXT, B.TEXT), t.TEXT, NOT_OWN), Signature((B.TEXT, B.TEXT, B.TEXT), t.TEXT, NOT_OWN)],
    "left": _text("left", (B.INTEGER,), t.TEXT, _left),
    "right": _text("right", (B.INTEGER,), t.TEXT, _right),
    "btrim": _trim("btrim", str.strip),
    "ltrim": _trim("ltrim", str.lstrip),
    "rtrim": _trim("rtrim", str.rstrip),
    "replace": _text("replace", (B.TEXT, B.TEXT), t.TEXT, _replace),
    "strpos": _text("strpos", (B.TEXT,), t.INTEGER, lambda text, part: text.find(part) + 1),
    "starts_with": _text("starts_with", (B.TEXT,), t.BOOLEAN, str.startswith),
    "repeat": _text("repeat", (B.INTEGER,), t.TEXT, _repeat),
    "reverse": _text("reverse", (), t.TEXT, lambda text: text[::-1]),
    "lpad": [
        _one("lpad", (B.TEXT, B.INTEGER), t.TEXT, lambda text, n: _pad(text, n, " ", left=True)),
        _one(
            "lpad", (B.TEXT, B.INTEGER, B.TEXT), t.TEXT, lambda text, n, fill: _pad(text, n, fill, left=True)
        ),
    ],
    "rpad": [
        _one("rpad", (B.TEXT, B.INTEGER), t.TEXT, lambda text, n: _pad(text, n, " ", left=False)),
        _one(
            "rpad", (B.TEXT, B.INTEGER, B.TEXT), t.TEXT, lambda text, n, fill: _pad(text, n, fill, left=False)
        ),
    ],
    "split_part": _text("split_part", (B.TEXT, B.INTEGER), t.TEXT, _split_part),
    "ascii": _text("ascii", (), t.INTEGER, lambda text: ord(text[0]) if text else 0),
    "chr": [_one("chr", (B.INTEGER,), t.TEXT, _chr)],
    "md5": [
        _one(
            "md5",
            (B.TEXT,),
            t.TEXT,
            lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
        ),
        _one("md5", (B.BYTEA,), t.TEXT, lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest()),
    ],
    "sha256": [_one("sha256", (B.BYTEA,), t.BYTEA, lambda data: hashlib.sha256(data).digest())],
    **extracts.TRUNCATION,
}
FUNCTIONS["character_length"] = FUNCTIONS["char_length"] = FUNCTIONS["length"][:2]
FUNCTIONS["ceiling"] = FUNCTIONS["ceil"]
FUNCTIONS["pow"] = FUNCTIONS["power"]
FUNCTIONS["substr"] = FUNCTIONS["substring"][:4]
