"""A queue in a table beside PostgreSQL: rows submitted, claimed and finished twenty at a time, and a hot row.

Every statement is a transaction of its own but where it says otherwise, sent by pgbench as a prepared one. A
backlog lies in the table, and each round begins with a new one. A claim takes the head of one index for
all clients (FOR UPDATE SKIP LOCKED); the finish moves the client's rows to another table.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from measure import Line, in_turn
from postgresql import connect, script_rate

BACKLOG, QUICK_BACKLOG = 200_000, 20_000
TABLES = (
    "DROP TABLE IF EXISTS job, done, counter",
    "CREATE TABLE job (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, g TEXT NOT NULL, "
    "priority INT NOT NULL, state TEXT NOT NULL, worker BIGINT, payload TEXT)",
    "CREATE INDEX job_ready ON job (g, priority DESC, id) WHERE state = 'ready'",
    "CREATE INDEX job_running ON job (worker, id) WHERE state = 'running'",
    "CREATE TABLE done (id BIGINT PRIMARY KEY, payload TEXT, at TIMESTAMPTZ NOT NULL)",
    "CREATE TABLE counter (id INT PRIMARY KEY, n BIGINT NOT NULL)",
    "INSERT INTO counter VALUES (1, 0)",
)
FILL = (
    "INSERT INTO job (g, priority, state, payload) SELECT 'g', n / 100000, 'ready', 'payload' "
    "FROM generate_series(1, {}) n"
)
CLAIM = (
    "UPDATE job SET state = 'running', worker = :client_id WHERE id IN (SELECT id FROM job WHERE g = 'g' "
    "AND state = 'ready' ORDER BY priority DESC, id LIMIT 20 FOR UPDATE SKIP LOCKED) RETURNING id, payload;"
)
FINISH = (
    "WITH gone AS (DELETE FROM job WHERE worker = :client_id AND state = 'running' RETURNING id, payload) "
    "INSERT INTO done SELECT id, payload, now() FROM gone;"
)
SUBMIT = (
    "INSERT INTO job (g, priority, state, payload) SELECT 'h', 0, 'ready', u.p FROM "
    f"unnest('{{{','.join(f'p{n}' for n in range(20))}}}'::text[]) AS u (p) RETURNING id;"
)
POINT_SUBMIT = "INSERT INTO job (g, priority, state, payload) VALUES ('h', 0, 'ready', 'p') RETURNING id;"
COUNT = "SELECT count(*) FROM job WHERE worker = :client_id AND state = 'running';"
HOT_ROW = "UPDATE counter SET n = n + 1 WHERE id = 1;"
HOT_TRANSACTION = (
    "BEGIN;\nINSERT INTO job (g, priority, state, payload) VALUES ('h', 0, 'running', 'p');\n"
    f"{HOT_ROW}\nCOMMIT;"
)
SCRIPTS = {
    "submit of 20": SUBMIT,
    "submit of 1": POINT_SUBMIT,
    "claim of 20": CLAIM,
    "claim and finish of 20": f"{CLAIM}\n{FINISH}",
    "count of a worker's": COUNT,
    "hot row": HOT_ROW,
    "hot row in a transaction": HOT_TRANSACTION,
}


def measure_queue(ours: int, peer: int, *, quick: bool) -> list[Line]:
    """Transactions a second of each script at 1 and 16 clients, on both ports."""
    seconds, rounds = (2, 1) if quick else (5, 3)
    backlog = QUICK_BACKLOG if quick else BACKLOG
    lines = []
    with tempfile.TemporaryDirectory(prefix="herdpy-bench-") as directory:
        for name, text in SCRIPTS.items():
            script = Path(directory) / "script.sql"
            script.write_text(text + "\n")
            rows = backlog if CLAIM in text else 0
            for clients in (1, 16):
                runs, peer_runs = in_turn(
                    rounds,
                    lambda: _rate(ours, script, clients, seconds, rows),  # noqa: B023 - called at once
                    lambda: _rate(peer, script, clients, seconds, rows),  # noqa: B023
                )
                line = Line(f"{name}, {clients} clients", median(runs), "tps", median(peer_runs))
                line.runs, line.peer_runs = runs, peer_runs
                lines.append(line)
    return lines


def _rate(port: int, script: Path, clients: int, seconds: int, backlog: int) -> float:
    """The rate over new tables with so many ready rows."""
    with connect(port) as connection:
        for statement in (*TABLES, FILL.format(backlog), "ANALYZE job"):
            connection.execute(statement)
    return script_rate(port, script, clients, seconds)
