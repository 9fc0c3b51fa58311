"""A small writer of SVG: shapes and text at places in pixels, in layers.

It knows nothing of drills. Texts are escaped here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

FONT = "'DejaVu Sans', 'Segoe UI', Verdana, Helvetica, Arial, sans-serif"
MONO = "'DejaVu Sans Mono', Menlo, Consolas, monospace"

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NARROW = frozenset("iljtfrI.,:;'|!()[]{} -")
_WIDE = frozenset("mwMWGOQ@%…→—")


class Canvas:
    """Elements of a picture that is `width` pixels wide; how high it is shows in the end.

    What is drawn `under` lies below everything else, in the order in which it was drawn.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._over: list[str] = []
        self._under: list[str] = []
        self._definitions: list[str] = []

    def define(self, element: str) -> None:
        """Add something that others name by its id."""
        self._definitions.append(element)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        radius: float = 0,
        stroke: str | None = None,
        opacity: float | None = None,
        dashed: bool = False,
        hint: str | None = None,
        under: bool = False,
    ) -> None:
        """A rectangle; `hint` is what a browser shows when the pointer rests on it."""
        attributes = {
            "x": _number(x),
            "y": _number(y),
            "width": _number(max(0.0, width)),
            "height": _number(height),
            "fill": fill,
            "rx": _number(radius) if radius else None,
            "stroke": stroke,
            "opacity": None if opacity is None else _number(opacity),
            "stroke-dasharray": "4 3" if dashed else None,
        }
        self._add("rect", attributes, hint, under=under)

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        stroke: str,
        *,
        width: float = 1,
        dashed: bool = False,
        under: bool = False,
    ) -> None:
        """A straight line."""
        places = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        attributes: dict[str, str | None] = {name: _number(value) for name, value in places.items()}
        attributes |= {
            "stroke": stroke,
            "stroke-width": None if width == 1 else _number(width),
            "stroke-dasharray": "4 3" if dashed else None,
        }
        self._add("line", attributes, None, under=under)

    def path(
        self,
        commands: Iterable[str],
        *,
        fill: str = "none",
        stroke: str | None = None,
        width: float = 1,
        hint: str | None = None,
    ) -> None:
        """A path of SVG's own commands; see `point` and `cell`."""
        drawn = "".join(commands)
        if drawn:
            self._add(
                "path",
                {
                    "d": drawn,
                    "fill": fill,
                    "stroke": stroke,
                    "stroke-width": _number(width) if stroke and width != 1 else None,
                    "stroke-linejoin": "round" if stroke else None,
                },
                hint,
            )

    def circle(self, x: float, y: float, radius: float, fill: str, *, stroke: str | None = None) -> None:
        """A disc."""
        attributes = {"cx": _number(x), "cy": _number(y), "r": _number(radius), "fill": fill}
        self._add("circle", {**attributes, "stroke": stroke}, None)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        fill: str = "#1f2933",
        bold: bool = False,
        mono: bool = False,
        anchor: str = "start",
        hint: str | None = None,
    ) -> None:
        """One line of text with its base line at `y`."""
        attributes = {
            "x": _number(x),
            "y": _number(y),
            "font-size": _number(size),
            "fill": fill,
            "font-weight": "bold" if bold else None,
            "font-family": MONO if mono else None,
            "text-anchor": None if anchor == "start" else anchor,
        }
        title = f"<title>{escaped(hint)}</title>" if hint else ""
        self._over.append(f"<text{_attributes(attributes)}>{title}{escaped(text)}</text>")

    def document(self, height: float, *, title: str, about: str, background: str) -> str:
        """The whole picture. `title` and `about` are for readers who hear it."""
        w, h = self.width, _number(height)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" '
            f'role="img" font-family="{FONT}">',
            f"<title>{escaped(title)}</title>",
            f"<desc>{escaped(about)}</desc>",
            f"<defs>{''.join(self._definitions)}</defs>" if self._definitions else "",
            f'<rect width="{w}" height="{h}" fill="{background}"/>',
            *self._under,
            *self._over,
            "</svg>",
        ]
        return "\n".join(part for part in parts if part) + "\n"

    def _add(
        self, name: str, attributes: dict[str, str | None], hint: str | None, *, under: bool = False
    ) -> None:
        inner = f"<title>{escaped(hint)}</title></{name}>" if hint else None
        element = f"<{name}{_attributes(attributes)}{'/>' if inner is None else '>' + inner}"
        (self._under if under else self._over).append(element)


def point(command: str, x: float, y: float) -> str:
    """A move ("M") or a line ("L") to a place."""
    return f"{command}{_number(x)} {_number(y)}"


def cell(x: float, y: float, width: float, height: float) -> str:
    """A closed rectangle as a part of a path."""
    w = _number(width)
    return f"M{_number(x)} {_number(y)}h{w}v{_number(height)}h-{w}z"


def text_width(text: str, size: float, *, bold: bool = False, mono: bool = False) -> float:
    """About how many pixels a text takes; rather too many than too few."""
    if mono:
        return len(text) * size * 0.61
    units = sum(0.36 if sign in _NARROW else 0.95 if sign in _WIDE else 0.63 for sign in text)
    return units * size * (1.1 if bold else 1.0)


def fitted(text: str, width: float, size: float, *, mono: bool = False) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if text_width(text, size, mono=mono) <= width:
        return text
    kept = text
    while kept and text_width(kept + "…", size, mono=mono) > width:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def escaped(text: str) -> str:
    """Text as XML has it; characters that XML has not at all become question marks."""
    return escape(_FORBIDDEN.sub("?", text))


def _attributes(values: dict[str, str | None]) -> str:
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items() if value is not None)


def _number(value: float) -> str:
    """A length with a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
