"""to_number: a text read by a template of digits, one pattern after the other."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.library.number_templates import NumberTemplate, number_template
from herdpy_sql.library.routine import add
from herdpy_sql.values.numeric import EXACT

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
