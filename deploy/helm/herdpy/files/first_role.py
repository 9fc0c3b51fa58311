"""Makes the first role that may log in from outside: a superuser with the password of a secret.

Started beside a server, it tries through the pod's own loopback, which is trusted, until the role is there:
the pod that leads makes it, and it reaches the others by the log. A role that is there is left as it is.
"""

import os
import time
from pathlib import Path

import psycopg
from psycopg import sql

PASSWORD = Path(os.environ.get("FIRST_ROLE_PASSWORD_FILE", "/etc/herdpy-first-role/password"))
PERIOD_S = 1.0


def is_there(name: str, password: str, port: int, database: str) -> bool:
    """Whether the role is there now; made if this server leads."""
    try:
        with psycopg.connect(
            host="127.0.0.1", port=port, user="admin", dbname=database, connect_timeout=5, autocommit=True
        ) as conn:
            if conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is None:
                statement = sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}")
                conn.execute(statement.format(sql.Identifier(name), sql.Literal(password)))
            return True
    except psycopg.Error:  # it has not started yet, it follows, or another has made the role meanwhile
        return False


def main() -> None:
    """Until the role is there."""
    name, password = os.environ["FIRST_ROLE"], PASSWORD.read_text().rstrip("\n")
    port = int(os.environ.get("HERDPY_POSTGRES_PORT", "5432"))
    while not is_there(name, password, port, os.environ["HERDPY_CLUSTER_TABLESPACE"]):
        time.sleep(PERIOD_S)


if __name__ == "__main__":
    main()
