"""Templates of numbers: to_char puts digits into their places, to_number reads them, pattern by pattern.

First the patterns that both share, and what all of them say together.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add
from herdpy_sql.library.time_templates import ordinal
from herdpy_sql.values.numeric import EXACT

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


_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip
_ROMAN_WIDTH = 15
_ROMAN_LIMIT = 4000
_DIGITS_OF_DOUBLE = 15
_DIGITS_OF_REAL = 6


class _Places:
    """A number on its way into a template.

    Attributes:
        digits: the number's text without its sign, as rounded for the template.
        spaces: places before the first digit.
        at: which digit is next; place: which place of the template.
        last: the last character of ``digits`` that FM keeps; None: all.
        begun: the last place showed something, so that a comma after it does.
    """

    def __init__(self, template: NumberTemplate, digits: str, spaces: int, sign: str) -> None:
        self.template, self.digits, self.spaces, self.sign = template.copy(), digits, spaces, sign
        self.fill = "FM" in template.flags
        self.roman = "RN" in template.flags
        self.out: list[str] = []
        self.at = self.place = 0
        self.begun = False
        self.last: int | None = None
        if self.roman:
            self.sign, self.spaces = "", 0
            self.template.flags = {"RN"}
            self.template.whole = self.template.fraction = 0
        self._place_sign()
        self._find_last()
        self.count = self.template.whole + self.template.fraction - 1
        self.count += not self.signed and not self.spaces

    def _place_sign(self) -> None:
        flags, template = self.template.flags, self.template
        if flags & {"PL", "MI", "SG"}:
            self.signed = flags & {"PL", "MI", "SG"} != {"PL"}
            return
        if self.sign != "-" and self.fill:
            flags.discard("PR")
        self.signed = self.sign == "+" and self.fill and "S" not in flags
        if template.sign_place == "before" and template.whole == template.digits_before_sign:
            template.sign_place = "after"

    def _find_last(self) -> None:
        point = self.digits.find(".")
        if not self.fill or "." not in self.template.flags or point < 0:
            return
        kept = self.digits.rstrip("0")
        self.last = max(point, len(kept) - 1)
        if self.template.zero_end > self.spaces:
            self.last = max(self.last, min(len(self.digits) - 1, self.template.zero_end - self.spaces))

    def shown(self) -> str:
        """The text."""
        for name, literal in self.template.parts:
            if not name:
                self.out.append(literal)
            elif name in {"9", "0", ".", "D"}:
                if not self.roman:
                    self._show_place(name)
            else:
                self.out.append(self._mark(name))
        return "".join(self.out)

    def _mark(self, name: str) -> str:
        """What a pattern shows that is no place of a digit."""
        blank = "" if self.fill else " "
        match name:
            case "," | "G":
                return "," if self.begun else blank
            case "L":
                return " "
            case "MI":
                return "-" if self.sign == "-" else blank
            case "PL":
                return "+" if self.sign == "+" else blank
            case "SG":
                return self.sign
            case "RN" | "rn" if self.roman:
                text = self.digits if self.fill else self.digits.rjust(_ROMAN_WIDTH)
                return text if name == "RN" else text.lower()
            case "TH" | "th":
                if self.roman or self.digits[:1] == "#" or self.sign == "-" or "." in self.template.flags:
                    return ""
                return ordinal(self.digits, name)[len(self.digits) :]
        return ""

    def _is_blank_zero(self) -> bool:
        """Whether the next digit is the 0 before the point, which only a 0 of the template shows."""
        no_zeros = "0" not in self.template.flags
        return no_zeros and self.at == 0 and self.digits[:1] == "0" and self.template.fraction != 0

    def _ends_at_point(self) -> bool:
        return self.last is not None and self.digits[self.last] == "."

    def _show_place(self, name: str) -> None:
        zeros = "0" in self.template.flags
        from_zero = zeros and self.template.zero_start <= self.place
        if (
            not self.signed
            and (self.place >= self.spaces or (zeros and self.template.zero_start == self.place))
            and (not self._is_blank_zero() or self._ends_at_point())
        ):
            self._show_sign()
        self.begun = False
        if self.place < self.spaces:
            self.begun = from_zero
            self.out.append("0" if from_zero else "" if self.fill else " ")
        else:
            self._show_digit(name)
        self._end_sign()
        self.place += 1

    def _show_sign(self) -> None:
        flags = self.template.flags
        if "S" in flags:
            if self.template.sign_place == "before":
                self.out.append(self.sign)
                self.signed = True
            return
        self.signed = True
        if "PR" in flags:
            self.out.append(" " if self.sign == "+" else "<")
        elif self.sign == "-" or not self.fill:
            self.out.append("-" if self.sign == "-" else " ")

    def _show_digit(self, name: str) -> None:
        char = self.digits[self.at : self.at + 1]
        if char == ".":
            self.out.append(".")
        elif self.last is not None and self.at > self.last and name != "0":
            pass
        elif self._is_blank_zero():
            self.out.append(" " if not self.fill else "0" if self._ends_at_point() else "")
        else:
            self.out.append(char)
            self.begun = True
        self.at += bool(char)

    def _end_sign(self) -> None:
        end = self.count + bool(self.spaces) + ("." in self.template.flags)
        if self.last is not None and self.last == self.at:
            end = self.place
        if self.place + 1 != end:
            return
        if self.signed and "PR" in self.template.flags:
            self.out.append(" " if self.sign == "+" else ">")
        elif "S" in self.template.flags and self.template.sign_place == "after":
            self.out.append(self.sign)


def _fit(template: NumberTemplate, text: str, whole: int, fraction: int) -> str:
    """A number's text in the places of a template; # where it has more digits."""
    sign, digits = ("-", text[1:]) if text[0] == "-" else ("+", text)
    length = len(digits.partition(".")[0])
    if length > whole:
        digits, length = "#" * whole + "." + "#" * fraction, whole
    sized = template.copy()
    sized.whole, sized.fraction = whole, fraction
    return _Places(sized, digits, whole - length, sign).shown()


def _roman(template: NumberTemplate, number: int) -> str:
    if not -(2**31) <= number < 2**31:
        raise SqlError("22003", "integer out of range")
    text, rest = "", number
    if 0 < number < _ROMAN_LIMIT:
        for value, letters in _ROMAN:
            text += letters * (rest // value)
            rest %= value
    return _Places(template, text or "#" * _ROMAN_WIDTH, 0, "").shown()


def _scientific(template: NumberTemplate, text: str) -> str:
    if text in {"NaN", "Infinity", "-Infinity"}:
        return " " + "#" * template.whole + "." + "#" * (template.fraction + 4)
    return text if text[0] == "-" else " " + text


def _sci_text(number: Decimal, fraction: int) -> str:
    """As PostgreSQL writes a NUMERIC with an exponent: 99999 with one digit is 10.0e+04."""
    power = number.adjusted() if number else 0
    short = number.scaleb(-power).quantize(Decimal(1).scaleb(-fraction), ROUND_HALF_UP, EXACT)
    return f"{short:f}e{power:+03d}"


def _numeric_text(value: Decimal, form: str) -> str:
    template = number_template(form)
    if "RN" in template.flags:
        return _roman(template, int(value.quantize(Decimal(1), ROUND_HALF_UP, EXACT)))
    if "EEEE" in template.flags:
        return _scientific(template, _sci_text(value, template.fraction))
    scaled = value.scaleb(template.power, EXACT)
    rounded = scaled.quantize(Decimal(1).scaleb(-template.fraction), ROUND_HALF_UP, EXACT)
    text = format(rounded if rounded else abs(rounded), "f")
    return _fit(template, text, template.whole + template.power, template.fraction)


def _integer_text(bits: int) -> Callable[[int, str], str]:
    def shown(value: int, form: str) -> str:
        template = number_template(form)
        if "RN" in template.flags:
            return _roman(template, value)
        if "EEEE" in template.flags:
            exact = _sci_text(Decimal(value), template.fraction)
            return _scientific(template, exact if bits == 64 else f"{float(value):.{template.fraction}e}")
        number = value * 10**template.power
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise SqlError("22003", f"{'integer' if bits == 32 else 'bigint'} out of range")
        text = f"{number}.{'0' * template.fraction}" if template.fraction else str(number)
        return _fit(template, text, template.whole + template.power, template.fraction)

    return shown


def _float_text(significant: int) -> Callable[[float, str], str]:
    """Of floats: no more digits than the type keeps."""

    def shown(value: float, form: str) -> str:
        template = number_template(form)
        if "RN" in template.flags:
            return _roman(template, round(value) if abs(value) < _ROMAN_LIMIT else 0)
        named = _named(value)
        if "EEEE" in template.flags:
            return _scientific(template, named or f"{value:.{template.fraction}e}")
        number = value * 10.0**template.power
        length = len(named.lstrip("-") if named else f"{abs(number):.0f}")
        fraction = max(0, min(template.fraction, significant - length))
        text = named or f"{number:.{fraction}f}"
        return _fit(template, text, template.whole + template.power, fraction)

    return shown


def _named(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


_OF: tuple[tuple[t.SqlType, Callable[[Any, str], str]], ...] = (
    (t.INTEGER, _integer_text(32)),
    (t.BIGINT, _integer_text(64)),
    (t.NUMERIC, _numeric_text),
    (t.REAL, _float_text(_DIGITS_OF_REAL)),
    (t.DOUBLE, _float_text(_DIGITS_OF_DOUBLE)),
)
for _type, _shown in _OF:
    add("to_char", (_type, t.TEXT), t.TEXT, _shown)


_DATA = frozenset("0123456789.,+-")


class _Reader:
    """A text on its way through a template: ``at`` is the next character, ``digits`` what was read."""

    def __init__(self, text: str, template: NumberTemplate) -> None:
        self.text, self.template = text, template
        self.at = 0
        self.sign = ""
        self.digits = ""
        self.whole = self.fraction = 0
        self.pointed = False

    def char(self) -> str:
        return self.text[self.at : self.at + 1]

    def read(self) -> None:
        for name, _ in self.template.parts:
            if self.at >= len(self.text):
                return
            if not name:
                self.at += 1
            elif name in {"9", "0", ".", "D"}:
                self._number(name)
                self.at += 1
            else:
                self._mark(name)

    def _mark(self, name: str) -> None:
        """A pattern that is no place of a digit."""
        match name:
            case "," | "G":  # before the first digit, too
                self.at += self.char() == ","
            case "L":
                self._skip(1)
            case "TH" | "th":
                if "." not in self.template.flags:
                    self._skip(2)
            case "MI" | "PL" | "SG":
                wanted = {"MI": "-", "PL": "+", "SG": "+-"}[name]
                if self.char() in wanted:
                    self.sign = self.char()
                    self.at += 1
                else:
                    self._skip(1)

    def _skip(self, count: int) -> None:
        for _ in range(count):
            if self.at >= len(self.text) or self.char() in _DATA:
                return
            self.at += 1

    def _number(self, name: str) -> None:
        self.at += self.char() == " "
        if not self.sign and name in {"0", "9"} and not self.whole + self.fraction:
            self._sign_before()
        if self.at >= len(self.text):
            return
        char, read = self.char(), False
        if char in "0123456789":
            if self.pointed and self.fraction == self.template.fraction:
                return
            self.digits += char
            self.fraction += self.pointed
            self.whole += not self.pointed
            read = True
        elif "." in self.template.flags and not self.pointed and char == ".":
            self.digits += "."
            self.pointed = read = True
        if not self.sign and self.whole + self.fraction:
            self._sign_behind(read)

    def _sign_before(self) -> None:
        flags, char = self.template.flags, self.char()
        if not char or ("S" in flags and self.template.sign_place != "before"):
            return
        if char in "+-" or ("PR" in flags and char == "<"):
            self.sign = "+" if char == "+" else "-"
            self.at += 1

    def _sign_behind(self, read: bool) -> None:
        """The sign behind what may be the last digit."""
        flags = self.template.flags
        if "S" in flags and read:
            following = self.text[self.at + 1 : self.at + 2]
            if following and following in "+-":
                self.sign = following
                self.at += 1
        elif not read and "S" not in flags and flags & {"PL", "MI", "SG"} and self.char() in "+-":
            self.sign = self.char()


def _to_number(text: str, form: str) -> Decimal | None:
    if not form:
        return None
    template = number_template(form)
    for name in ("EEEE", "RN"):
        if name in template.flags:
            raise SqlError("0A000", f'"{name}" not supported for input')
    reader = _Reader(text, template)
    reader.read()
    digits = reader.digits.removesuffix(".")
    if not digits:
        raise SqlError("22P02", f'invalid input syntax for type numeric: "{reader.sign:1}"')
    if len(digits.partition(".")[0].lstrip("0")) > template.whole + template.power:
        raise SqlError("22003", "numeric field overflow")
    number = Decimal(("-" if reader.sign == "-" else "") + digits)
    if "V" in template.flags:
        power = Decimal(1).scaleb(-template.power).quantize(Decimal("1E-16"), ROUND_HALF_UP, EXACT)
        number = EXACT.multiply(number, power)
    return number if number else abs(number)


add("to_number", (t.TEXT, t.TEXT), t.NUMERIC, _to_number)
