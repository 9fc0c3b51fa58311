"""Any order of calls: a connection does what PEP 249 and PostgreSQL's transactions say, step by step."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import herdpy

numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def _database(tmp_path_factory):
    Calls.watcher = herdpy.connect(tmp_path_factory.mktemp("states") / "db", autocommit=True)
    yield
    Calls.watcher.close()


class Calls(RuleBasedStateMachine):
    """A connection beside a model of it: what is committed, what it sees, and where it stands."""

    watcher: herdpy.Connection

    @initialize(autocommit=st.booleans())
    def connect(self, autocommit):
        self.table = f"t{next(numbers)}"
        self.watcher.execute(f"CREATE TABLE {self.table} (a INTEGER PRIMARY KEY)")
        self.conn = herdpy.connect(self.watcher.info.dbname, autocommit=autocommit)
        self.cursor = self.conn.cursor()
        self.autocommit = autocommit
        self.committed: set[int] = set()
        self.seen: set[int] = set()
        self.status = "IDLE"

    def teardown(self):
        if hasattr(self, "conn"):
            self.conn.close()
            self.watcher.execute(f"DROP TABLE {self.table}")

    def began(self):
        if self.status == "IDLE" and not self.autocommit:
            self.status = "INTRANS"

    def done(self):
        if self.status == "IDLE":
            self.committed = set(self.seen)

    def run(self, text, params=None, *, fails=None):
        """Execute, and expect the error ``fails``, or 25P02 in a failed transaction."""
        if self.status == "INERROR":
            fails = "25P02"
        self.began()
        if fails is None:
            self.cursor.execute(text, params)
            return True
        with pytest.raises(herdpy.DatabaseError) as caught:
            self.cursor.execute(text, params)
        assert caught.value.sqlstate == fails
        if self.status == "INTRANS":
            self.status = "INERROR"
        return False

    @rule(number=st.integers(0, 5))
    def insert(self, number):
        fails = "23505" if number in self.seen else None
        if self.run(f"INSERT INTO {self.table} VALUES (%s)", (number,), fails=fails):
            assert self.cursor.rowcount == 1
            self.seen.add(number)
            self.done()

    @rule(numbers=st.lists(st.integers(0, 5), min_size=1, max_size=3))
    def insert_many(self, numbers):
        wrong = len(set(numbers)) < len(numbers) or self.seen & set(numbers)
        if self.status == "INERROR" or wrong:
            self.began()
            with pytest.raises(herdpy.DatabaseError) as caught:
                self.cursor.executemany(f"INSERT INTO {self.table} VALUES ($1)", [(n,) for n in numbers])
            assert caught.value.sqlstate == ("25P02" if self.status == "INERROR" else "23505")
            self.status = "INERROR" if self.status != "IDLE" else "IDLE"
            return
        self.began()
        self.cursor.executemany(f"INSERT INTO {self.table} VALUES ($1)", [(n,) for n in numbers])
        assert self.cursor.rowcount == len(numbers)
        self.seen.update(numbers)
        self.done()

    @rule(number=st.integers(0, 5))
    def delete(self, number):
        if self.run(f"DELETE FROM {self.table} WHERE a = %(n)s", {"n": number}):
            assert self.cursor.rowcount == (number in self.seen)
            self.seen.discard(number)
            self.done()

    @rule(size=st.integers(0, 7))
    def select(self, size):
        if self.run(f"SELECT a FROM {self.table} ORDER BY a"):
            rows = [(n,) for n in sorted(self.seen)]
            assert self.cursor.fetchmany(size) == rows[:size]
            assert self.cursor.rownumber == min(size, len(rows))
            assert self.cursor.fetchall() == rows[size:]

    @rule()
    def fail(self):
        self.run("SELECT 1 / 0", fails="22012")

    @rule(params=st.sampled_from([(), (1, 2), {"a": 1}, "x"]))
    def misuse(self, params):
        """The driver refuses before the database hears of it: nothing changes."""
        with pytest.raises(herdpy.ProgrammingError):
            self.cursor.execute("SELECT %s", params)
        with pytest.raises(herdpy.ProgrammingError, match="no statement was executed"):
            self.cursor.fetchone()

    @rule()
    def begin(self):
        if self.run("BEGIN"):
            self.status = "INTRANS"

    @rule(statement=st.booleans())
    def commit(self, statement):
        if statement:
            self.cursor.execute("COMMIT")
            assert self.cursor.statusmessage == ("ROLLBACK" if self.status == "INERROR" else "COMMIT")
        elif self.status == "INERROR":
            with pytest.raises(herdpy.InternalError):
                self.conn.commit()
        else:
            self.conn.commit()
        if self.status == "INERROR":
            self.seen = set(self.committed)
        self.committed = set(self.seen)
        self.status = "IDLE"

    @rule(statement=st.booleans())
    def rollback(self, statement):
        if statement:
            self.cursor.execute("ROLLBACK")
        else:
            self.conn.rollback()
        self.seen = set(self.committed)
        self.status = "IDLE"

    @rule(value=st.booleans())
    def set_autocommit(self, value):
        if self.status != "IDLE":
            with pytest.raises(herdpy.ProgrammingError):
                self.conn.autocommit = value
            return
        self.conn.autocommit = self.autocommit = value

    @rule()
    def another_cursor(self):
        self.cursor.close()
        with pytest.raises(herdpy.InterfaceError):
            self.cursor.execute("SELECT 1")
        self.cursor = self.conn.cursor()

    @rule()
    def reconnect(self):
        self.conn.close()
        self.seen, self.status = set(self.committed), "IDLE"
        self.conn = herdpy.connect(self.watcher.info.dbname, autocommit=self.autocommit)
        self.cursor = self.conn.cursor()

    @invariant()
    def it_stands_where_the_model_does(self):
        if hasattr(self, "conn"):
            assert self.conn.info.transaction_status.name == self.status

    @invariant()
    def others_see_what_is_committed(self):
        if hasattr(self, "conn"):
            rows = self.watcher.execute(f"SELECT a FROM {self.table}").fetchall()
            assert {n for (n,) in rows} == self.committed


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
