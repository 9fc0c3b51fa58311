"""What servers import for their start: nothing that they may never need."""

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


CLUSTER_CODE = """
import sys
import herdpy.cli.serving
import herdpy_server.server, herdpy_server.process.member, herdpy_server.replica.roles
unneeded = {
    "duckdb", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet", "pandas", "fsspec", "opentelemetry",
    "uvicorn", "starlette", "prometheus_client", "scramp", "typer", "pydantic", "psycopg", "herdpy.dbapi",
    "herdpy.pool", "sqlglot.executor", "herdpy_server.console",
}
print(sorted(unneeded & set(sys.modules)))
"""


def test_a_server_of_a_cluster_joins_without_what_it_may_never_need():
    done = subprocess.run([sys.executable, "-c", CLUSTER_CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_server_alone_starts_without_what_it_may_never_need():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
