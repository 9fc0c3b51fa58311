"""SQL without I/O: types, catalog, parse, bind, plan, expressions, execution over a storage protocol."""

import herdpy.compiled  # noqa: F401 - it decides whether compiled modules are used
