"""Random definitions and changes of a table, in and out of transactions, give what PostgreSQL gives.

After each run the database is opened again, from its log or from a checkpoint in its midst, and has the same
rows and the same definition; what the store has is checked.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

import herdpy

NAMES = ("a", "b", "c", "d", "e")
TYPES = ("int", "bigint", "text", "numeric(12,2)", "boolean")
LITERALS = {
    "int": ("0", "1", "7", "-3"),
    "bigint": ("2", "9000000000"),
    "text": ("'x'", "'7'", "'true'"),
    "numeric(12,2)": ("1.50", "8"),
    "boolean": ("true", "false"),
}
SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(6, 300))]


class Writer:
    """Makes statements; what columns there might be it only guesses, so that errors come too."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.serial = 0

    def literal(self) -> str:
        kind = self.dice.choice(TYPES)
        return self.dice.choice((*LITERALS[kind], "NULL"))

    def action(self) -> str:
        pick = self.dice.choice
        name, kind = pick(NAMES), pick(TYPES)
        default = f" DEFAULT {pick(LITERALS[kind])}" if self.dice.random() < 0.6 else ""
        return pick(
            (
                f"ADD COLUMN {name} {kind}{default}",
                f"ADD COLUMN {name} {kind}{default}{pick((' NOT NULL', ' UNIQUE', ''))}",
                f"ADD COLUMN IF NOT EXISTS {name} {kind}",
                f"ADD COLUMN {name} int GENERATED ALWAYS AS (k * 2) STORED",
                f"ADD COLUMN {name} text GENERATED ALWAYS AS (upper({pick(NAMES)})) STORED",
                f"DROP COLUMN {name}",
                f"DROP COLUMN IF EXISTS {name} CASCADE",
                f"ALTER {name} TYPE {kind}",
                f"ALTER {name} TYPE {kind} USING {pick(LITERALS[kind])}",
                f"ALTER {name} TYPE text USING {name}::text || 'z'",
                f"ALTER {name} SET DEFAULT {pick(LITERALS[kind])}",
                f"ALTER {name} DROP DEFAULT",
                f"ALTER {name} SET NOT NULL",
                f"ALTER {name} DROP NOT NULL",
                f"ALTER {name} DROP EXPRESSION IF EXISTS",
                f"ADD CHECK ({name} IS NOT NULL)",
                f"ADD UNIQUE ({name})",
            )
        )

    def statement(self) -> str:
        dice, pick = self.dice, self.dice.choice
        roll = dice.random()
        if roll < 0.4:
            actions = [self.action() for _ in range(pick((1, 1, 1, 2, 3)))]
            return f"ALTER TABLE t {', '.join(actions)}"
        if roll < 0.45:
            return f"ALTER TABLE t RENAME {pick(NAMES)} TO {pick(NAMES)}"
        if roll < 0.5:
            self.serial += 1
            return pick(
                (
                    f"CREATE INDEX i{self.serial} ON t ({pick(NAMES)})",
                    f"CREATE UNIQUE INDEX i{self.serial} ON t (({pick(NAMES)} + k))",
                    f"CREATE INDEX i{self.serial} ON t (upper({pick(NAMES)}))",
                    f"CREATE UNIQUE INDEX i{self.serial} ON t ({pick(NAMES)}) WHERE {pick(NAMES)} > k",
                )
            )
        if roll < 0.8:
            self.serial += 1
            names = dice.sample(NAMES, dice.randint(0, 2))
            values = ", ".join(["k", *names]), ", ".join([str(self.serial), *(self.literal() for _ in names)])
            return f"INSERT INTO t ({values[0]}) VALUES ({values[1]})"
        if roll < 0.9:
            return f"UPDATE t SET {pick(NAMES)} = {self.literal()} WHERE k % 3 = {dice.randrange(3)}"
        if roll < 0.95:
            return f"UPDATE t SET k = k + 1000 WHERE k % 5 = {dice.randrange(5)}"
        return f"DELETE FROM t WHERE k % 7 = {dice.randrange(7)}"

    def script(self, length: int) -> list[str]:
        found = []
        while len(found) < length:
            if self.dice.random() < 0.1:
                inner = [self.statement() for _ in range(self.dice.randint(1, 4))]
                found += ["BEGIN", *inner, self.dice.choice(("COMMIT", "ROLLBACK"))]
            else:
                found.append(self.statement())
        return found


def state(error: Any) -> str:
    return str(error.sqlstate)


def run(connection: Any, statement: str) -> str:
    """What a statement came to: its SQLSTATE, or the count of its rows."""
    try:
        cursor = connection.execute(statement)
    except (herdpy.Error, psycopg.Error) as error:
        return state(error)
    return str(cursor.rowcount) if statement[:3] in {"INS", "UPD", "DEL"} else "done"


def rows(connection: Any) -> list[list[str]]:
    cursor = connection.execute("SELECT * FROM t ORDER BY k")
    names = [column[0] for column in cursor.description]
    return [names, *([str(value) for value in row] for row in cursor.fetchall())]


def definition(connection: Any) -> list[tuple[Any, ...]]:
    columns = connection.execute(
        "SELECT attname, attnotnull, attgenerated, atttypid FROM pg_attribute"
        " WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    ).fetchall()
    indexes = connection.execute(
        "SELECT indexname, indexdef LIKE '%UNIQUE%', indexdef LIKE '%WHERE%' FROM pg_indexes"
        " WHERE schemaname = 'public' AND tablename = 't' ORDER BY 1"
    ).fetchall()
    return [*columns, *indexes]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_as_in_postgres(seed: int, tmp_path: Path, postgres: str) -> None:
    print("seed", seed)
    dice = random.Random(seed)
    script = ["CREATE TABLE t (k int PRIMARY KEY, a int, b text)", *Writer(dice).script(60)]
    with psycopg.connect(postgres, autocommit=True) as theirs:
        theirs.execute("DROP TABLE IF EXISTS t CASCADE")
        ours = herdpy.connect(tmp_path / "d", autocommit=True)
        said = []
        for statement in script:
            one, two = run(ours, statement), run(theirs, statement)
            said.append((statement, one))
            assert one == two or _are_errors(statement, one, two), (said[-1], two, said)
            if dice.random() < 0.05 and not one.startswith("25"):
                run(ours, "CHECKPOINT")
            if dice.random() < 0.3:
                _agree(ours, theirs, said)
        _agree(ours, theirs, said)
        ours.close()
        ours = herdpy.connect(tmp_path / "d", autocommit=True)
        _agree(ours, theirs, said)
        _by_index(ours, dice)
        ours.execute("CHECKPOINT")
        ours.close()
        assert _findings(tmp_path / "d") == []


def _are_errors(statement: str, one: str, two: str) -> bool:
    """Whether both are errors of a statement of which several things are wrong: either may be reported.

    A constant that no column can hold is found out by PostgreSQL before there is a row to be changed.
    """
    if len(two) != 5:
        return False
    if len(one) == 5:
        return ", " in statement or "428C9" in {one, two}
    return statement.startswith("UPDATE") and one == "0" and two.startswith("22")


def _agree(ours: Any, theirs: Any, said: list[tuple[str, str]]) -> None:
    """The same rows and definition; nothing while a transaction has failed."""
    if run(ours, "SELECT 1") != "done":
        return
    assert rows(ours) == rows(theirs), said
    assert definition(ours) == definition(theirs), said


def _by_index(connection: Any, dice: random.Random) -> None:
    """What indexes give is what a scan gives."""
    names = rows(connection)[0]
    for name in names:
        values = [row[0] for row in connection.execute(f"SELECT {name} FROM t").fetchall()]
        for value in dice.sample(values, min(3, len(values))):
            if value is not None:
                found = connection.execute(f"SELECT count(*) FROM t WHERE {name} = %s", (value,)).fetchall()
                assert found == [(sum(value == one for one in values),)]


def _findings(path: Path) -> list[object]:
    from herdpy_server.store import Store

    (place,) = [one.parent for one in path.rglob("data.mdb")]
    store = Store.open(place, read_only=True)
    try:
        return list(store.check())
    finally:
        store.close()
