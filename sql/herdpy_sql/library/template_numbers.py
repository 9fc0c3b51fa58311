"""to_char and to_number of numbers, by templates of digits (PostgreSQL's adt/formatting.c)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add
from herdpy_sql.library.templates import ordinal
from herdpy_sql.values.numeric import EXACT

_NUMBER_WORDS = re.compile(
    r'"((?:[^"\\]|\\.)*)"|FM|fm|MI|mi|PL|pl|SG|sg|PR|pr|RN|rn|TH|th|V|v|EEEE|eeee|.', re.DOTALL
)


def _number_text(value: Any, form: str) -> str:
    """A number by a template of digits. SqlError 0A000 for RN, V and EEEE."""
    words = list(_NUMBER_WORDS.finditer(form))
    names = [m[0].upper() if m[1] is None else "" for m in words]
    if {"RN", "V", "EEEE"} & set(names):
        raise SqlError("0A000", "RN, V and EEEE in templates of numbers are not supported")
    fill = "FM" in names
    point = next((i for i, n in enumerate(names) if n in {".", "D"}), len(names))
    before = sum(n in {"9", "0"} for n in names[:point])
    after = sum(n in {"9", "0"} for n in names[point:])
    number = Decimal(value) if not isinstance(value, float) else Decimal(repr(value))
    rounded = EXACT.quantize(number, Decimal(1).scaleb(-after))
    negative = rounded < 0
    whole, _, fraction = format(abs(rounded), "f").partition(".")
    overflow = len(whole) > before and whole != "0"
    zero_from = next(
        (sum(n in {"9", "0"} for n in names[:i]) for i, n in enumerate(names[:point]) if n == "0"), before
    )
    digits = whole if whole != "0" or before == 0 else ("" if zero_from >= before else "0")
    if whole == "0" and before and after == 0 and zero_from >= before:
        digits = "0"
    padded = digits.rjust(before)
    last_nine = max((i for i, n in enumerate(names) if n == "0" and i > point), default=point)
    out: list[str] = []
    seen = place = fplace = 0
    signed = bool({"S", "MI", "PL", "SG", "PR"} & set(names))
    started = False
    sign_at: int | None = None
    for i, (match, name) in enumerate(zip(words, names, strict=True)):
        if match[1] is not None:
            out.append(match[1].replace("\\", ""))
        elif name in {"9", "0"} and i < point:
            char = padded[place] if not overflow else "#"
            if char == " " and place >= zero_from:
                char = "0"
            if char != " " and not started:
                started, sign_at = True, len(out)
            out.append(char if char != " " or not fill else "")
            place += 1
            seen += 1
        elif name in {"9", "0"}:
            char = "#" if overflow else fraction[fplace]
            if fill and not overflow and i > last_nine and not fraction[fplace:].strip("0"):
                char = ""
            out.append(char)
            fplace += 1
        elif name in {".", "D"}:
            if not started:
                started, sign_at = True, len(out)
            out.append(".")
        elif name in {",", "G"}:
            out.append("," if started else ("" if fill else " "))
        elif name == "MI":
            out.append("-" if negative else ("" if fill else " "))
        elif name == "PL":
            out.append("+" if not negative else ("" if fill else " "))
        elif name == "SG":
            out.append("-" if negative else "+")
        elif name == "S":
            out.append("\0")
        elif name == "TH":
            ending = ordinal(whole, match[0])[len(whole) :]
            out.append("" if negative or after else ending)
        elif name in {"FM", "PR"}:
            continue
        else:
            out.append(match[0])
    sign_at = len(out) if sign_at is None else sign_at
    mark = "-" if negative else "+"
    if "PR" in names:
        body = "".join(out[sign_at:])
        return "".join(out[:sign_at]) + (f"<{body}>" if negative else (body if fill else f" {body} "))
    if "\0" in out:
        if out[0] == "\0":
            rest = out[1:]
            return "".join([*rest[: sign_at - 1], mark, *rest[sign_at - 1 :]])
        return "".join(out).replace("\0", mark)
    text = "".join(out[:sign_at]) + ("-" if negative and not signed else "") + "".join(out[sign_at:])
    return text if fill or signed or negative else " " + text


for _type in (t.INTEGER, t.BIGINT, t.NUMERIC, t.DOUBLE):
    add("to_char", (_type, t.TEXT), t.TEXT, _number_text)


def _to_number(text: str, form: str) -> Decimal:
    names = [m[0].upper() for m in _NUMBER_WORDS.finditer(form)]
    point = next((i for i, n in enumerate(names) if n in {".", "D"}), len(names))
    after = sum(n in {"9", "0"} for n in names[point:])
    kept = re.sub(r"[^0-9.+\-<]", "", text)
    negative = "-" in kept or "<" in kept
    whole, _, fraction = re.sub(r"[^0-9.]", "", kept).partition(".")
    if not whole and not fraction:
        raise SqlError("22P02", f'invalid input syntax for type numeric: "{text}"')
    number = Decimal(f"{whole or '0'}.{fraction[:after]}" if after else whole or "0")
    return -number if negative else number


add("to_number", (t.TEXT, t.TEXT), t.NUMERIC, _to_number)
