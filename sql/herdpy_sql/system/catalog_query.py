"""A query over the catalog that the columnar engine runs: system relations are relations in FROM.

``catalog_query`` gives each system relation of a statement to ``columnar.translate`` as one that is handed
over with the query (``given``): its columns have PostgreSQL's types, and its rows are made when the
query runs. :meth:`CatalogQuery.begun` takes what the session's state says; ``run`` makes the rows from the
catalog, in which the functions of the catalog look things up, too (``answers``). It does so in the process
that has the state: the rows are few.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from herdpy_sql.catalog import Catalog, Column, Table
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import translate
from herdpy_sql.columnar.contexts import running
from herdpy_sql.columnar.engine import Limits
from herdpy_sql.columnar.query import ColumnarQuery, Scan
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.given import Given
from herdpy_sql.library.catalog_functions import COUNTED, SIZES
from herdpy_sql.objects import CatalogObject
from herdpy_sql.plan import type_names
from herdpy_sql.plan.scope import name_of
from herdpy_sql.system import contents, lookups, names
from herdpy_sql.system.actions import SessionAction, Signal, Sleep, perform, take_actions, take_signals
from herdpy_sql.system.answers import CatalogAnswers, procedure_oid
from herdpy_sql.system.herdpy_schema import SERVER_FACTS
from herdpy_sql.system.state import FrozenState, LocalState, ServerState
from herdpy_sql.system_relations import HERDPY, SystemRelation, arrow_of, find_relation
from herdpy_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    CHAR_BYTE,
    DOUBLE,
    INTEGER,
    NAME,
    OID,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMPTZ,
    Base,
    SqlType,
    array_of,
)  # fmt: skip
from herdpy_sql.values.number_vectors import vector_of
from herdpy_sql.values.reg_types import reg_value

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_sql.columnar.engine import Interrupt

_MEMORY = 256 << 20
_FIRST_USER_OID = 16384
_SEQUENCE_ID = -1
_HANDED = "\x01"
"""Before the names of relations that are handed over: no user's table can be called so."""
_TYPES = {
    "bool": BOOLEAN, "int2": SMALLINT, "int4": INTEGER, "int8": BIGINT, "oid": OID, "xid": SqlType(Base.XID),
    "float4": REAL, "float8": DOUBLE, "timestamptz": TIMESTAMPTZ, "bytea": BYTEA, "name": NAME,
    '"char"': CHAR_BYTE, "text": TEXT, "int2vector": SqlType(Base.INT2VECTOR),
    "oidvector": SqlType(Base.OIDVECTOR), "regproc": SqlType(Base.REGPROC), "regtype": SqlType(Base.REGTYPE),
    "oid[]": array_of(OID), "int2[]": array_of(SMALLINT), "float4[]": array_of(REAL),
    "name[]": array_of(NAME), '"char"[]': array_of(CHAR_BYTE),
}  # fmt: skip
_VERSIONS = {"xmin": 2, "xmax": 0, "cmin": 0, "cmax": 0}
"""2 is the number that rows have in PostgreSQL which are older than all transactions."""
_CONVERTED = frozenset({"int2vector", "oidvector", "regproc", "regtype"})
_SEQUENCE = (("last_value", BIGINT), ("log_cnt", BIGINT), ("is_called", BOOLEAN))
_WORDS = frozenset({"user", "current_role", "current_catalog", "session_user", "current_user"})
"""Functions that are called without parentheses."""


_OF_CLUSTER: Mapping[str, frozenset[str]] = {
    "pg_stat_replication": frozenset({"replicas", "nodes"}),
    "pg_stat_wal_receiver": frozenset({"log_status", "nodes"}),
    "pg_stat_archiver": frozenset({"archive"}),
}
"""Facts of the server, by the relation of pg_catalog that is made of them."""
_TABLE_COUNTS = frozenset({
    "pg_stat_user_tables", "pg_stat_all_tables", "pg_stat_database",
})  # fmt: skip
_COUNTING = frozenset(f"pg_stat_get_{name}" for name in COUNTED)
_OF_RELATIONS = {
    "database counts": "pg_stat_database",
    "locks": "pg_locks",
    "query ids": "pg_stat_activity",
    "statements": "pg_stat_statements",
    "statements info": "pg_stat_statements_info",
}
"""Facts of the session's own server, by the relation that is made of them."""


@dataclass(frozen=True)
class CatalogQuery:
    """A query over the catalog; immutable.

    Attributes:
        query: what the columnar engine runs.
        relations, sequences: what it reads of the system, by the ids of the tables that stand for it.
        unqualified: names of system relations that stand without a schema, so that a user's table of that
            name would be meant if there were one.
        actions: what it changes, done when it begins; ``done`` has what they gave.
        signals: outputs of ``query`` that are numbers of sessions to be signalled when the rows are there.
        state: what the server said when the query began; ``live``: the server, of a query with ``signals``.
    """

    query: ColumnarQuery
    catalog: Catalog
    relations_by_id: Mapping[int, SystemRelation]
    sequences: Mapping[int, CatalogObject]
    unqualified: tuple[str, ...] = ()
    actions: tuple[SessionAction, ...] = ()
    signals: tuple[Signal, ...] = ()
    state: ServerState | None = None
    live: ServerState | None = None
    done: tuple[object, ...] = ()

    @property
    def relations(self) -> tuple[SystemRelation, ...]:
        """The system relations that it reads."""
        return tuple(self.relations_by_id.values())

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The users' tables that it reads too."""
        return self.query.scans

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        """Of the answer."""
        found = list(self.query.columns)
        for signal in self.signals:
            found[signal.column] = OutputColumn(found[signal.column].name, BOOLEAN)
        return tuple(found)

    @property
    def param_types(self) -> tuple[SqlType, ...]:
        """Of the statement's parameters."""
        return self.query.param_types

    @property
    def server_facts(self) -> list[str]:
        """The facts of the server that it reads (``ServerState.facts``)."""
        found = {one.name for one in self.relations if one.schema == HERDPY and one.name in SERVER_FACTS}
        for one in self.relations:
            found |= _OF_CLUSTER.get(one.name, frozenset())
        return sorted(found)

    @property
    def seen(self) -> list[str]:
        """The facts that the session's own server can tell at once."""
        read = {one.name for one in self.relations}
        called = {one.name for one in self.query.routines}
        found = []
        if self.sequences or "pg_sequences" in read or "pg_sequence_last_value" in called:
            found.append("sequences")
        for name, needed in _OF_RELATIONS.items():
            if needed in read:
                found.append(name)
        if any(one.schema == HERDPY and one.name == "statements" for one in self.relations):
            found.append("statements")
        if read & _TABLE_COUNTS or called & _COUNTING:
            found.append("table counts")
        if called & SIZES:
            found.append("sizes")
        if read & {"pg_stat_wal", "pg_stat_bgwriter"}:
            found.append("log counts")
        if "pg_blocking_pids" in called:
            found.append("blockers")
        return found

    def begun(self, state: ServerState, params: Sequence[Datum]) -> CatalogQuery:
        """The query with what the state says now; does what its functions do (set_config and so on).

        To be called where sessions run, before ``run``, which may be elsewhere.
        """
        frozen = FrozenState(state, {*self.server_facts, *self.seen})
        done = tuple([perform(action, state, params) for action in self.actions])
        return replace(self, state=frozen, live=state if self.signals else None, done=done)

    def run(
        self,
        sources: Mapping[str, pa.Table],
        params: Sequence[Datum],
        clock: Clock,
        limits: Limits | None = None,
        interrupt: Interrupt | None = None,
    ) -> pa.Table:
        """The answer as an Arrow table; as ``ColumnarQuery.run``."""
        context = contents.Context(self.catalog, self.state or LocalState())
        for pause in self.done:
            if isinstance(pause, Sleep):
                pause.wait(interrupt, None if limits is None else limits.seconds)
        answers = CatalogAnswers(context, ["" if isinstance(one, Sleep) else one for one in self.done])
        handed = {id_: _table(one, context, answers) for id_, one in self.relations_by_id.items()}
        handed |= {id_: _sequence_row(one, answers) for id_, one in self.sequences.items()}
        own = Limits(_MEMORY, 1, None, None if limits is None else limits.seconds)
        with running(answers) as number:
            query = replace(self.query.handing(handed, self.query.param_types), context=number)
            return query.run(sources, params, clock, own, interrupt)

    def ended(self, found: pa.Table) -> pa.Table:
        """The answer to what ``run`` found, after each row's sessions were signalled, in the rows' order.

        To be called where sessions run. SqlError 42501: the rows before it were signalled.
        """
        if self.live is None:
            return found
        answers: list[list[bool | None]] = [[] for _ in self.signals]
        for row in zip(*(found.column(signal.column).to_pylist() for signal in self.signals), strict=True):
            for signal, answer, pid in zip(self.signals, answers, row, strict=True):
                answer.append(None if pid is None else self.live.signal(pid, terminate=signal.terminates))
        for signal, answer in zip(self.signals, answers, strict=True):
            field = pa.field(found.schema.names[signal.column], pa.bool_())
            found = found.set_column(signal.column, field, pa.array(answer, pa.bool_()))
        return found

    def moved(self, catalog: Catalog) -> CatalogQuery | None:
        """The same query over another catalog; None when its names might mean something else there."""
        if (
            self.scans
            or self.sequences
            or type_names.has_enums(catalog)
            or type_names.has_enums(self.catalog)
        ):
            return None
        if any(isinstance(catalog.find(None, name), Table) for name in self.unqualified):
            return None
        return replace(self, catalog=catalog)


def catalog_query(
    tree: exp.Expression,
    catalog: Catalog,
    param_types: Sequence[SqlType] = (),
    targets: Sequence[SqlType | None] | None = None,
) -> CatalogQuery:
    """The query that a statement asks. SqlError, 0A000 for what the columnar engine has not."""
    found = NamedRelations(tree, catalog)
    query = translate(found.tree, catalog, param_types, targets=targets, given=found.given, context=True)
    return found.query(query)


def is_word(column: exp.Column) -> bool:
    """Whether what looks like a column is a function that is called without parentheses."""
    plain = isinstance(column.this, exp.Identifier) and not column.this.args.get("quoted")
    return plain and not column.args.get("table") and column.name.lower() in _WORDS


def _is_set(column: exp.Expression) -> bool:
    """Whether it is a column that UPDATE sets."""
    return (
        isinstance(column.parent, exp.EQ)
        and column.arg_key == "this"
        and (isinstance(column.parent.parent, exp.Update) and column.parent.arg_key == "expressions")
    )


class NamedRelations:
    """A statement over the catalog, and the relations that are handed over with the query for it.

    Attributes:
        tree: the statement; it names what is handed over, and its calls that change something are numbered.
        given: what is handed over, by the names in ``tree``.
    """

    def __init__(self, tree: exp.Expression, catalog: Catalog) -> None:
        """SqlError 0A000 for a call that changes something, of what is no constant or parameter."""
        self.tree = tree.copy()
        self.given: dict[str, Given] = {}
        self._catalog = catalog
        self._relations: dict[int, SystemRelation] = {}
        self._sequences: dict[int, CatalogObject] = {}
        self._unqualified: set[str] = set()
        for node in list(self.tree.find_all(exp.Table)):
            self._take(node)
        for column in list(self.tree.find_all(exp.Column)):
            if is_word(column) and not _is_set(column):
                column.replace(exp.Anonymous(this=column.name.lower()))
        self._signals = take_signals(self.tree)
        self._actions = take_actions(self.tree)

    def query(self, query: ColumnarQuery) -> CatalogQuery:
        """The query over the catalog that is bound and emitted as ``query``."""
        read = {scan.table.id for scan in query.given}
        return CatalogQuery(
            query,
            self._catalog,
            {id_: one for id_, one in self._relations.items() if id_ in read},
            {id_: one for id_, one in self._sequences.items() if id_ in read},
            tuple(sorted(self._unqualified)),
            self._actions,
            self._signals,
        )

    def _take(self, node: exp.Table) -> None:
        """Have a table's node name the relation that is handed over, if it means one of the system's."""
        _name_relation(node)
        if not isinstance(node.this, exp.Identifier) or node.args.get("catalog"):
            return
        name, schema = name_of(node.this), node.args.get("db")
        if schema is None and is_common(node, name):
            return
        own = self._catalog.find(None if schema is None else name_of(schema), name)
        relation = find_relation(None if schema is None else name_of(schema), name)
        if isinstance(own, CatalogObject) and own.kind == "sequence":
            given = _sequence_relation(own, _SEQUENCE_ID - len(self._sequences))
            self._sequences[given.table.id] = own
        elif relation is not None and (schema is not None or not isinstance(own, Table)):
            given = _relation(relation)
            self._relations[given.table.id] = relation
            if schema is None:
                self._unqualified.add(name)
        else:
            return
        self.given[given.name] = given
        node.set("db", None)
        node.set("this", exp.to_identifier(given.name, quoted=True))
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


RELATION_FUNCTIONS = {
    "pg_timezone_names": "pg_timezone_names",
    "pg_show_all_settings": "pg_settings",
    "pg_prepared_statement": "pg_prepared_statements",
    "pg_cursor": "pg_cursors",
}
"""Functions that give the rows of a relation."""


def _name_relation(node: exp.Table) -> None:
    """Have a call of one of RELATION_FUNCTIONS in FROM name the relation."""
    called = node.this
    if isinstance(called, exp.Anonymous) and not called.expressions:
        name = str(called.this).lower()
        if name in RELATION_FUNCTIONS:
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
            node.set("this", exp.to_identifier(RELATION_FUNCTIONS[name]))
            node.set("db", exp.to_identifier("pg_catalog"))


def is_common(node: exp.Expression, name: str) -> bool:
    """Whether a WITH query of that name is in reach."""
    above: Any = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        if with_ is not None and any(name_of(one.args["alias"].this) == name for one in with_.expressions):
            return True
        above = above.parent
    return False


@functools.lru_cache(maxsize=256)
def _relation(relation: SystemRelation) -> Given:
    """A system relation as one that is handed over; ids are such that its object id is PostgreSQL's."""
    columns = (
        *(Column(name, type_of(kind)) for name, kind in relation.columns),
        Column("tableoid", OID, hidden=True),
        *(Column(name, SqlType(Base.XID), hidden=True) for name in _VERSIONS),
    )
    table = Table(relation.oid - _FIRST_USER_OID, relation.name, columns, (), "")
    return Given(_HANDED + relation.label, table, tuple(name for name, _kind in relation.columns))


def type_of(kind: str) -> SqlType:
    """The type of a column; TEXT for what has no type here, such as pg_node_tree."""
    found = _TYPES.get(kind)
    if found is None:
        return array_of(TEXT) if pa.types.is_list(arrow_of(kind)) else TEXT
    return found


def _sequence_relation(sequence: CatalogObject, id_: int) -> Given:
    columns = tuple(Column(name, type_) for name, type_ in _SEQUENCE)
    table = Table(id_, sequence.name, columns, (), "")
    return Given(f"{_HANDED}{sequence.schema}.{sequence.name}", table, tuple(name for name, _ in _SEQUENCE))


def _sequence_row(sequence: CatalogObject, answers: CatalogAnswers) -> pa.Table:
    value, called = lookups.by_key("sequence", answers.context)[(sequence.oid,)]
    return pa.table({"last_value": pa.array([value], pa.int64()), "log_cnt": pa.array([0], pa.int64()),
                     "is_called": pa.array([called], pa.bool_())})  # fmt: skip


def _table(relation: SystemRelation, context: contents.Context, answers: CatalogAnswers) -> pa.Table:
    """The rows of a relation in the forms of its columns' types."""
    made = contents.table(relation, context)
    if any(kind in _CONVERTED for _name, kind in relation.columns):
        if relation.label not in contents.OF_CATALOG:
            made = _converted(relation, made, answers)
        else:
            label = f"typed {relation.label}"
            made = contents.kept_table(context.catalog, label, lambda: _converted(relation, made, answers))
    for name, value in {"tableoid": relation.oid, **_VERSIONS}.items():
        made = made.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), made.num_rows))
    return made


def _converted(relation: SystemRelation, made: pa.Table, answers: CatalogAnswers) -> pa.Table:
    for at, (name, kind) in enumerate(relation.columns):
        if kind in _CONVERTED:
            values = [
                None if one is None else _datum(kind, one, answers) for one in made.column(at).to_pylist()
            ]
            made = made.set_column(at, name, pa.array(values, pa.string()))
    return made


def _datum(kind: str, value: Any, answers: CatalogAnswers) -> str | None:
    if kind == "regproc":
        return reg_value(procedure_oid(value), value)
    if kind == "regtype":
        return reg_value(names.type_oid(answers.context, value), value)
    return vector_of(tuple(value))
