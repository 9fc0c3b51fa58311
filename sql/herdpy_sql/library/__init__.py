"""Functions and operators that both engines call: one implementation over datums, one choice by types.

Own plans call them as they are; for the columnar engine ``columnar.routines`` makes functions of DuckDB's.
A call is found by :func:`resolve`, from its name (an operator's is its symbol) and its arguments' types.
"""

from herdpy_sql.library import arrays as _arrays  # noqa: F401 - registers itself
from herdpy_sql.library import bit_strings as _bit_strings  # noqa: F401
from herdpy_sql.library import bytes_and_hashes as _bytes_and_hashes  # noqa: F401
from herdpy_sql.library import catalog_functions as _catalog_functions  # noqa: F401
from herdpy_sql.library import json_functions as _json_functions  # noqa: F401
from herdpy_sql.library import networks as _networks  # noqa: F401
from herdpy_sql.library import number_templates as _number_templates  # noqa: F401
from herdpy_sql.library import numbers as _numbers  # noqa: F401
from herdpy_sql.library import texts as _texts  # noqa: F401
from herdpy_sql.library import time_templates as _time_templates  # noqa: F401
from herdpy_sql.library import times as _times  # noqa: F401
from herdpy_sql.library import vectors as _vectors  # noqa: F401
from herdpy_sql.library.routine import ROUTINES, Resolved, Routine, reshaped, resolve, routine_of

__all__ = ["ROUTINES", "Resolved", "Routine", "reshaped", "resolve", "routine_of"]
