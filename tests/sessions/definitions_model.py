"""What sessions whose transactions define things at the same time must find: a model of their tables.

A table is the count of its added columns, and its rows' first values. Each session has temporary tables of
its own; permanent ones are everybody's, and each name of those is changed by one session only.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

NAMES = ("a", "b")


@dataclass
class Made:
    """A table."""

    columns: int = 0
    rows: list[int] = field(default_factory=list)
    indexes: int = 0
    has_view: bool = False
    dropped_at_commit: bool = False


Tables = dict[tuple[str, str], Made]
"""By schema ("pg_temp" or "public") and name."""


class Actor:
    """One session: what it sees, and what it would go back to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tables: Tables = {}
        self.before: Tables | None = None  # at BEGIN
        self.savepoint: Tables | None = None
        self.failed = False
        self.isolated = False

    def step(self, what: str, name: str, value: int) -> tuple[str, str] | None:
        """The statement of a step and the SQLSTATE of its answer ("" for none); None: not now."""
        if what in {"begin", "begin_isolated"}:
            return self._begin("REPEATABLE READ" if what == "begin_isolated" else "READ COMMITTED")
        if what in {"commit", "rollback"}:
            return self._end(what)
        if what == "savepoint":
            return self._save()
        if what == "rollback_to":
            return self._back()
        if self.failed or (self.isolated and what.startswith("public_")):
            return None  # a snapshot must have the newest permanent definitions
        sql, state = self._define(what, name, value)
        if state and self.before is not None:
            self.failed = True
        if not state and self.before is None:
            self._leave_out()
        return sql, state

    def _begin(self, level: str) -> tuple[str, str] | None:
        if self.before is not None:
            return None
        self.before, self.savepoint = deepcopy(self.tables), None
        self.isolated = level != "READ COMMITTED"
        return f"BEGIN ISOLATION LEVEL {level}", ""

    def _end(self, what: str) -> tuple[str, str] | None:
        if self.before is None:
            return None
        if what == "rollback" or self.failed:
            self.tables = self.before
        else:
            self._leave_out()
        self.before = self.savepoint = None
        self.failed = self.isolated = False
        return what.upper(), ""

    def _leave_out(self) -> None:
        self.tables = {key: one for key, one in self.tables.items() if not one.dropped_at_commit}

    def _save(self) -> tuple[str, str] | None:
        if self.before is None or self.failed:
            return None
        self.savepoint = deepcopy(self.tables)
        return "SAVEPOINT s", ""

    def _back(self) -> tuple[str, str] | None:
        if self.savepoint is None:
            return None
        self.tables, self.failed = deepcopy(self.savepoint), False
        return "ROLLBACK TO s", ""

    def _define(self, what: str, name: str, value: int) -> tuple[str, str]:
        schema = "public" if what.startswith("public_") else "pg_temp"
        what = what.removeprefix("public_")
        if schema == "public":
            name = f"{name}{self.number}"
        key, full = (schema, name), f"{schema}.{name}"
        found = self.tables.get(key)
        if what.startswith("create"):
            kind = "TEMP TABLE" if schema == "pg_temp" else "TABLE"
            end = " ON COMMIT DROP" if what == "create_for_now" else ""
            if found is None:
                self.tables[key] = Made(dropped_at_commit=bool(end))
            return f"CREATE {kind} {name} (id int, n serial){end}", "" if found is None else "42P07"
        if found is None:
            return f"DROP TABLE {full}", "42P01"
        if what == "view":
            created, found.has_view = found.has_view, True
            return f"CREATE VIEW public.v_{name} AS SELECT id FROM {full}", "42P07" if created else ""
        if what == "drop" and found.has_view:
            return f"DROP TABLE {full}", "2BP01"
        if what == "drop":
            del self.tables[key]
            return f"DROP TABLE {full}", ""
        return self._change(found, what, full, value), ""

    def _change(self, found: Made, what: str, full: str, value: int) -> str:
        if what == "insert":
            found.rows.append(value)
            return f"INSERT INTO {full} VALUES ({value})"
        if what == "index":
            found.indexes += 1
            return f"CREATE INDEX ON {full} (id)"
        found.columns += 1
        return f"ALTER TABLE {full} ADD COLUMN c{found.columns} int DEFAULT {found.columns}"


STEPS = (
    "begin",
    "begin_isolated",
    "commit",
    "rollback",
    "savepoint",
    "rollback_to",
    "create",
    "create_for_now",
    "drop",
    "alter",
    "index",
    "insert",
)
