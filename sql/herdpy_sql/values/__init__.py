"""Datums at the edges: to and from Python objects and PostgreSQL's text forms.

    input_converter(type)(object) -> Datum       what a psycopg user would pass, or text
    output_converter(type) -> (Datum -> object) or None when the datum is the object already
    to_text(type)(datum) -> str, from_text(type)(str) -> Datum      None is never passed to these two
    type_of(object) -> SqlType                   of an untyped parameter

CHAR(n) datums hold no trailing blanks (so keys, comparisons and casts to TEXT need no care); the
blanks are put back by ``output_converter`` and ``to_text``.
"""

from herdpy_sql.values.guesses import type_of, type_of_all
from herdpy_sql.values.inputs import input_converter
from herdpy_sql.values.outputs import output_converter
from herdpy_sql.values.texts import from_text, to_text

__all__ = ["from_text", "input_converter", "output_converter", "to_text", "type_of", "type_of_all"]
