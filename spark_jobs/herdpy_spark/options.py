"""The options of ``format("herdpy")``: which there are, what each takes, for which of Spark's calls.

Spark hands options over as text, with names in any case. ``Options.parse`` checks all of them at once,
before anything is connected to.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from herdpy.log.lsn import LSN
from herdpy.options import microseconds, nearest, one_of, whole
from herdpy_sql.catalog import exact_name

Use: TypeAlias = Literal["read", "write", "stream"]
Position: TypeAlias = LSN | int | str
"""An LSN, a time in microseconds since 1970 (UTC), or one of the words that the option knows."""

MAX_PARTITIONS = 1024
DEFAULT_LEASE_S = 600.0
MODES = ("append", "upsert", "ignore", "delete")

_LSN = re.compile(r"(-?\d{1,19}):(-?\d{1,19})")
_PART = r'"(?:[^"]|"")+"|[^\W\d][\w$]*'
_NAME = re.compile(rf"({_PART})(?:\.({_PART}))?")


class OptionError(ValueError):
    """An option that is not known, is missing, or has a value that it does not take."""


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("a text that is not empty")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = tuple(
        _unquoted(name.strip()) for name in re.findall(r'((?:"(?:[^"]|"")*"|[^,])*)(?:,|$)', text)[:-1]
    )
    if not names or not all(names):
        raise ValueError("names of columns with commas between them")
    if len(set(names)) < len(names):
        raise ValueError("each column once")
    return names


def _unquoted(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == '"':
        return name[1:-1].replace('""', '"')
    return name


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = microseconds(text, "s") / 1e6
        if seconds > 0:
            return seconds
    raise ValueError("a duration, such as 90, 90s, 10min, 1h or 1d")


def _position(*words: str) -> Callable[[str], Position]:
    def read(text: str) -> Position:
        given = text.strip()
        if given.lower() in words:
            return given.lower()
        if found := _LSN.fullmatch(given):
            return LSN(int(found[1]), int(found[2]))
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            raise ValueError(
                f"{', '.join(words)}, an LSN (12:34), or a timestamp (2026-03-01T08:00:00+01:00; UTC when it "
                "has no offset)"
            ) from None
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    return read


def _relation(text: str) -> str:
    """What FROM may name: a table as SQL writes it becomes ``"schema"."name"``, a SELECT stays."""
    if text.lstrip().startswith("("):
        return text.strip()
    if not (found := _NAME.fullmatch(text.strip())):
        raise ValueError("a table's name, or (SELECT ...) AS name")
    parts = [_folded(part) for part in found.groups() if part is not None]
    *schemas, name = parts
    return exact_name(name, *schemas)


def _folded(name: str) -> str:
    return _unquoted(name) if name.startswith('"') else name.lower()


def _load_id(text: str) -> str:
    if not 1 <= len(text.encode()) <= 64:
        raise ValueError("1 to 64 bytes of text")
    return text


@dataclass(frozen=True, slots=True)
class Definition:
    """One option.

    Attributes:
        name: as documentation writes it.
        uses: Spark's calls that take it.
        read: its value from text; ValueError says what it takes.
        says: what it is for, in a line.
    """

    name: str
    uses: tuple[Use, ...]
    read: Callable[[str], Any]
    says: str


_ALL: tuple[Use, ...] = ("read", "write", "stream")


def _option(
    name: str, uses: tuple[Use, ...], read: Callable[[str], Any], says: str, default: Any = None
) -> Any:
    definition = Definition(name, uses, read, says)
    return field(default=default, metadata={"option": definition}, repr=name != "password")


@dataclass(frozen=True, slots=True)
class Options:
    """What a DataFrame, a load or a stream was asked for. None: not given."""

    url: str = _option(
        "url",
        _ALL,
        _text,
        "where the database is: herdpy://host:port,host2:port2/tablespace, "
        "herdpy+zk://zk1:2181,zk2:2181/root?tablespace=name, or herdpy:///directory",
        "",
    )
    user: str | None = _option("user", _ALL, _text, "the role, where the URL has none")
    password: str | None = _option("password", _ALL, str, "its password, where the URL has none")
    grpc: str | None = _option(
        "grpc",
        _ALL,
        _text,
        "the servers' gRPC endpoints, host:port,host2:port2, where SQL does not report them",
    )
    table: str | None = _option(
        "table",
        _ALL,
        _text,
        "the table's name, without quotes; schema.name where it is not in public; quoted if it has a dot",
    )
    query: str | None = _option(
        "query", ("read",), _text, "a SELECT instead of a table; one partition, all its tables at one LSN"
    )
    dbtable: str | None = _option(
        "dbtable",
        _ALL,
        _relation,
        "JDBC's name of table, which takes SQL's quotes; to read also (SELECT ...) AS name, as query",
    )
    columns: tuple[str, ...] | None = _option(
        "columns", ("read",), _names, "the columns to read, in this order, separated by commas"
    )
    where: str | None = _option("where", ("read",), _text, "only rows for which this SQL condition is true")
    snapshot: Position = _option(  # noqa: RUF009  # all positions are immutable
        "snapshot",
        ("read",),
        _position("latest"),
        "the state that is read: latest, an LSN, or a timestamp; all but latest is read from the log",
        "latest",
    )
    source: str = _option(
        "from",
        ("read",),
        one_of("replica", "log"),
        "what to read: replica (a server, preferably a follower) or log (a published snapshot and ledgers)",
        "replica",
    )
    partitions: int | None = _option(
        "numPartitions",
        ("read", "stream"),
        whole(1, MAX_PARTITIONS),
        "how many partitions to make; fewer where there is less to read",
    )
    low: str | None = _option(
        "lowerBound",
        ("read",),
        str,
        "only rows whose first key column is not before this value; see partitionColumn",
    )
    high: str | None = _option(
        "upperBound",
        ("read",),
        str,
        "only rows whose first key column is before this value; see partitionColumn",
    )
    partition_column: str | None = _option(
        "partitionColumn",
        ("read",),
        _text,
        "as JDBC's: numPartitions even steps from lowerBound to upperBound of this column, the key's first; "
        "all rows are read",
    )
    batch_rows: int | None = _option(
        "fetchsize",
        ("read",),
        whole(0, 10**9),
        "the most rows in one batch that a task hands to Spark; 0: any",
    )
    lease_s: float = _option(
        "lease",
        ("read", "stream"),
        _seconds,
        "how long the state is held after it was last read: 90s, 10min, at most 1h",
        DEFAULT_LEASE_S,
    )
    mode: str | None = _option(
        "mode",
        ("write",),
        one_of(*MODES),
        "what becomes of rows whose key is there: append (an error), upsert, ignore; delete removes by key",
    )
    load_id: str | None = _option(
        "loadId", ("write",), _load_id, "names the load: another one of the same name adds nothing"
    )
    starting: Position | None = _option(  # noqa: RUF009  # all positions are immutable
        "startingOffsets",
        ("stream",),
        _position("earliest", "latest"),
        "where the stream begins: earliest, latest, after an LSN, or after a timestamp",
    )
    max_entries: int | None = _option(
        "maxEntriesPerTrigger", ("stream",), whole(1, 10**18 - 1), "the most entries of the log in one batch"
    )
    on_trimmed: str = _option(
        "onTrimmed",
        ("stream",),
        one_of("error", "snapshot"),
        "when the log does not go back as far: error, or snapshot (the oldest rows that are left come first)",
        "error",
    )

    @classmethod
    def parse(cls, given: Mapping[str, str], use: Use | None = None) -> Options:
        """Check all options.

        Args:
            use: what they are for; None: not known yet, so all are taken.

        Raises:
            OptionError: with the options that exist.
        """
        known = {one.metadata["option"].name.lower(): one for one in fields(cls)}
        made: dict[str, Any] = {}
        for name, text in given.items():
            one = known.get(name.lower())
            if one is None and name.lower().startswith("option."):
                raise OptionError(
                    "Spark hands no source in Python the options of a table of its catalog: make it with "
                    "CREATE TEMPORARY VIEW ... USING herdpy OPTIONS (...), or by herdpy_spark.attach"
                )
            if one is None:
                here = {one.name.lower(): one.name for one, _ in definitions() if not use or use in one.uses}
                near = nearest(name.lower(), here)
                meant = f"; is {here[near]} meant?" if near else ""
                raise OptionError(f"the option {name} is not known: {_listed(use)}{meant}")
            definition: Definition = one.metadata["option"]
            if use is not None and use not in definition.uses:
                raise OptionError(f"the option {definition.name} is not for {_CALLS[use]}: {_listed(use)}")
            try:
                made[one.name] = definition.read(str(text))
            except ValueError as error:
                shown = "" if definition.name == "password" else f", not {text!r}"
                raise OptionError(f"the option {definition.name} takes {error}{shown}") from None
        options = cls(**_named(made, use))
        options._check()
        return options

    @property
    def is_feed(self) -> bool:
        """Whether changes are asked for, rather than rows."""
        return self.starting is not None

    def _check(self) -> None:
        if not self.url:
            raise OptionError(
                "the option url is missing: herdpy://host:port/tablespace, or herdpy:///directory"
            )
        if (self.table is None) == (self.query is None):
            raise OptionError("either the option table or the option query is needed")
        if self.query is not None:
            for name, value in {
                "columns": self.columns,
                "where": self.where,
                "lowerBound": self.low,
                "upperBound": self.high,
                "numPartitions": self.partitions,
                "partitionColumn": self.partition_column,
            }.items():
                if value is not None:
                    raise OptionError(f"the option {name} is for tables: put it in the query")
        if self.partition_column is not None and None in (self.low, self.high, self.partitions):
            raise OptionError("the option partitionColumn needs lowerBound, upperBound and numPartitions")


def _named(made: dict[str, Any], use: Use | None) -> dict[str, Any]:
    """Fields with what JDBC's ``dbtable`` means in the place of it.

    OptionError when it is said twice, or a SELECT is to be written to.
    """
    relation = made.pop("dbtable", None)
    if relation is None:
        return made
    if "table" in made or "query" in made:
        raise OptionError("the options dbtable, table and query: one of them says what is meant")
    if relation.startswith("("):
        if use not in (None, "read"):
            raise OptionError(f"the option dbtable: a SELECT is not for {_CALLS[use]}")
        return {**made, "query": f"SELECT * FROM {relation}"}
    return {**made, "table": relation}


def definitions() -> list[tuple[Definition, Any]]:
    """All options in the order of documentation, with their defaults."""
    return [(one.metadata["option"], one.default) for one in fields(Options)]


_CALLS: dict[Use, str] = {"read": "spark.read", "write": "df.write", "stream": "spark.readStream"}


def _listed(use: Use | None) -> str:
    names = [one.name for one, _default in definitions() if use is None or use in one.uses]
    where = "there are" if use is None else f"{_CALLS[use]} has"
    return f"{where} {', '.join(names)}"
