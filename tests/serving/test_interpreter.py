"""What a process that serves makes of its interpreter. In processes of their own: it is for good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import duckdb
import pyarrow as pa
from herdpy_server.serving import settle_interpreter
settle_interpreter()
settle_interpreter()
assert pa.array([1, 2]).to_pylist() == [1, 2]
t = pa.table({"a": [1, 2]})
assert duckdb.connect().register("t", t).execute("SELECT sum(a) FROM t WHERE a > ?", [1]).fetchone() == (2,)
print("pandas" in sys.modules)
"""


def test_pyarrow_imports_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was imported')")
    environment = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path])}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, env=environment
    )
    assert (ran.stdout, ran.returncode) == ("False\n", 0), ran.stderr
