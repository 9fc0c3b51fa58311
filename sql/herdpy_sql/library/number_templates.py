"""Templates of numbers: the patterns that to_char and to_number share, and what all of them say together."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from herdpy_sql.errors import SqlError

_TOKENS = re.compile(
    r'"((?:\\.|[^"\\])*\\?)(?:"|\Z)|\\(")|'
    r"(EEEE|eeee|FM|fm|MI|mi|PL|pl|PR|pr|RN|rn|SG|sg|SP|sp|TH|th|[,.09BCDGLSVbcdglsv])|(.)",
    re.DOTALL,
)
_CASED = frozenset({"RN", "rn", "TH", "th"})
_SIGNS = frozenset({"PL", "MI", "SG", "PR"})


@dataclass
class NumberTemplate:
    """What a template says of a number.

    Attributes:
        parts: (pattern, "") or ("", literal text), in order.
        whole, fraction: places of digits before and after the point.
        power: digits after V, which multiplies by as many powers of ten.
        flags: the patterns that concern the whole number: FM, S, MI, PL, SG, PR, RN, V, EEEE, "." and "0".
        zero_start: the first place that shows a zero, from 0 on; zero_end: the place after the last.
        sign_place: "before" or "after" the digits, where S is.
    """

    parts: list[tuple[str, str]] = field(default_factory=list)
    whole: int = 0
    fraction: int = 0
    power: int = 0
    flags: set[str] = field(default_factory=set)
    zero_start: int = 0
    zero_end: int = 0
    sign_place: str = ""
    digits_before_sign: int = 0

    def copy(self) -> NumberTemplate:
        """One whose counts may change while a number is shown."""
        return NumberTemplate(**{**vars(self), "flags": set(self.flags)})


@functools.lru_cache(maxsize=256)
def number_template(form: str) -> NumberTemplate:
    """The template of a text. SqlError 42601 for patterns that do not go together."""
    template = NumberTemplate()
    for quoted, escaped, pattern, char in _TOKENS.findall(form):
        if pattern:
            name = pattern if pattern in _CASED else pattern.upper()
            template.parts.append((name, ""))
            _note(template, name.upper())
        else:
            literal = re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) + escaped + char
            template.parts += [("", one) for one in literal]
    return template


def _wrong(message: str, detail: str | None = None) -> SqlError:
    return SqlError("42601", message, detail=detail)


def _note(template: NumberTemplate, name: str) -> None:
    flags = template.flags
    if "EEEE" in flags and name != "EEEE":
        raise _wrong('"EEEE" must be the last pattern used')
    if name in {"9", "0"}:
        _note_digit(template, name)
    elif name in {".", "D"}:
        if "." in flags:
            raise _wrong("multiple decimal points")
        if "V" in flags:
            raise _wrong('cannot use "V" and decimal point together')
        flags.add(".")
    elif name == "V":
        if "." in flags:
            raise _wrong('cannot use "V" and decimal point together')
        flags.add("V")
    elif name == "EEEE":
        if "EEEE" in flags:
            raise _wrong('cannot use "EEEE" twice')
        if flags & {"B", "FM", "S", "PR", "MI", "PL", "SG", "RN", "V"}:
            raise _wrong(
                '"EEEE" is incompatible with other formats',
                '"EEEE" may only be used together with digit and decimal point patterns.',
            )
        flags.add("EEEE")
    elif name == "B":
        if not template.whole + template.fraction and "0" not in flags:
            flags.add("B")
    elif name in {"FM", "RN"}:
        flags.add(name)
    else:
        _note_sign(template, name)


def _note_digit(template: NumberTemplate, name: str) -> None:
    flags = template.flags
    if "PR" in flags:
        raise _wrong(f'"{name}" must be ahead of "PR"')
    if name == "9" and "V" in flags:
        template.power += 1
        return
    if name == "0" and "0" not in flags and "." not in flags:
        flags.add("0")
        template.zero_start = template.whole
    if "." in flags:
        template.fraction += 1
    else:
        template.whole += 1
    if name == "0":
        template.zero_end = template.whole + template.fraction


def _note_sign(template: NumberTemplate, name: str) -> None:
    flags = template.flags
    if name == "S":
        if "S" in flags:
            raise _wrong('cannot use "S" twice')
        if flags & _SIGNS:
            raise _wrong('cannot use "S" and "PL"/"MI"/"SG"/"PR" together')
        template.sign_place = "after" if "." in flags else "before"
        template.digits_before_sign = template.whole
        flags.add("S")
    elif name == "PR":
        if flags & {"S", "PL", "MI", "SG"}:
            raise _wrong('cannot use "PR" and "S"/"PL"/"MI"/"SG" together')
        flags.add("PR")
    elif name in _SIGNS:
        if "S" in flags:
            raise _wrong(f'cannot use "S" and "{name}" together')
        flags.add(name)
