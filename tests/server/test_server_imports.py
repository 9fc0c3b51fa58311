"""What a server that is alone imports for its start: nothing that it may never need."""

import subprocess
import sys

CODE = """
import sys
import herdpy.cli.serving
import herdpy_server.server
unneeded = {
    "duckdb", "pyarrow.compute", "pyarrow.parquet", "herdpy.bookkeeper.client", "herdpy_server.replica.node",
    "kazoo", "uvicorn", "prometheus_client", "scramp", "typer", "pydantic", "herdpy.dbapi", "herdpy.pool",
}
print(sorted(unneeded & set(sys.modules)))
"""


def test_a_server_alone_starts_without_what_it_may_never_need():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
