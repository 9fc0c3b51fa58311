"""The values of SQL's types: a file a type, and ``forms``, which has the forms of all of them.

Above ``types`` (what a type is), below everything that reads, writes or computes values.
"""

from herdpy_sql.values.forms import (
    from_text,
    input_converter,
    output_converter,
    to_text,
    type_of,
    type_of_all,
)

__all__ = ["from_text", "input_converter", "output_converter", "to_text", "type_of", "type_of_all"]
