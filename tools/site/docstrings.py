"""Docstrings as the site shows them: what they say to readers of the sources alone is left out."""

from __future__ import annotations

from typing import Any

import griffe

_FOR_SOURCES = ("Layer: ", "DESIGN.md ")


class WithoutLayers(griffe.Extension):
    """Leaves out the paragraphs of a module's docstring that name its layer and its DESIGN.md."""

    def on_module(self, *, mod: griffe.Module, **kwargs: Any) -> None:
        """A module was loaded, with its docstring."""
        if mod.docstring is None:
            return
        kept, layer = [], False
        for paragraph in mod.docstring.value.split("\n\n"):
            is_part = layer and paragraph.startswith(" ")  # a picture of the layer
            layer = paragraph.startswith(_FOR_SOURCES) or is_part
            kept += [] if layer else [paragraph]
        mod.docstring.value = "\n\n".join(kept)
