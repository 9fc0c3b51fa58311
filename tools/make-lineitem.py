"""Write TPC-H's lineitem as Parquet: real rows of its generator, which DuckDB has as an extension.

    uv run --isolated --no-project --with duckdb==1.5.5 --with duckdb-extension-tpch==1.5.5 \
        python tools/make-lineitem.py FILE [SCALE]

The extension is for one version of DuckDB, which need not be the one that HerdPy uses: hence an environment
of its own.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main(target: str, scale: str = "0.1") -> None:
    """Write the file; scale 0.1 is 600,572 rows."""
    import duckdb

    spec = importlib.util.find_spec("duckdb_extension_tpch")
    if spec is None or spec.origin is None:
        raise SystemExit("duckdb-extension-tpch is not installed")
    (extension,) = Path(spec.origin).parent.rglob("tpch.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CALL dbgen(sf = {float(scale)})")
    connection.execute(f"COPY lineitem TO '{target}' (FORMAT parquet)")


if __name__ == "__main__":
    main(*sys.argv[1:])
