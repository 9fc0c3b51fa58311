"""Functions and operators that both engines call: one implementation over datums, one choice by types.

Own plans call them as they are; for the columnar engine ``columnar.routines`` makes functions of DuckDB's.
A call is found by :func:`resolve`, from its name (an operator's is its symbol) and its arguments' types.
"""

from herdpy_sql.library import arrays as _arrays  # noqa: F401 - registers itself
from herdpy_sql.library import bytes_and_hashes as _bytes_and_hashes  # noqa: F401
from herdpy_sql.library import date_parts as _date_parts  # noqa: F401
from herdpy_sql.library import json_access as _json_access  # noqa: F401
from herdpy_sql.library import json_changes as _json_changes  # noqa: F401
from herdpy_sql.library import json_making as _json_making  # noqa: F401
from herdpy_sql.library import json_parts as _json_parts  # noqa: F401
from herdpy_sql.library import numbers as _numbers  # noqa: F401
from herdpy_sql.library import template_number_reading as _template_number_reading  # noqa: F401
from herdpy_sql.library import template_numbers as _template_numbers  # noqa: F401
from herdpy_sql.library import template_reading as _template_reading  # noqa: F401
from herdpy_sql.library import templates as _templates  # noqa: F401
from herdpy_sql.library import texts as _texts  # noqa: F401
from herdpy_sql.library import times as _times  # noqa: F401
from herdpy_sql.library import vectors as _vectors  # noqa: F401
from herdpy_sql.library.resolving import reshaped, resolve
from herdpy_sql.library.routine import ROUTINES, Resolved, Routine, routine_of

__all__ = ["ROUTINES", "Resolved", "Routine", "reshaped", "resolve", "routine_of"]
