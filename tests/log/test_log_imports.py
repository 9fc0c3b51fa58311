"""The log stands on the standard library, google_crc32c and the codecs' kinds alone."""

import subprocess
import sys
from pathlib import Path

CODE = """
import sys
import herdpy.log, herdpy.log.inspect
heavy = {"numpy", "pyarrow", "lmdb", "duckdb", "sqlglot", "msgspec", "herdpy_sql", "herdpy_server"}
print(sorted(heavy & set(sys.modules)))
"""


def test_importing_the_log_stays_light():
    root = str(Path(__file__).parents[2])
    found = subprocess.run([sys.executable, "-c", CODE], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
