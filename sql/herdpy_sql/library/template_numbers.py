"""to_char of numbers: their digits put into a template's places, one pattern after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.library.number_templates import NumberTemplate, number_template
from herdpy_sql.library.routine import add
from herdpy_sql.library.time_templates import ordinal
from herdpy_sql.values.numeric import EXACT

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
