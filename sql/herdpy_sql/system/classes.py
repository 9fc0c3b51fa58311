"""Rows about relations and what is on them: pg_class, pg_attribute, pg_index, pg_constraint, pg_sequence.

Comments and what depends on what, too, and PostgreSQL's views over its own catalog: pg_tables, pg_views,
pg_indexes, pg_sequences, statistics of use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy_sql.catalog import is_temporary
from herdpy_sql.objects import SYSTEM, CatalogObject, CommentDefinition
from herdpy_sql.partition_texts import bound_text
from herdpy_sql.plan.views import view_text
from herdpy_sql.quoting import quote_ident
from herdpy_sql.rights.held import owner_of, subject_of
from herdpy_sql.sequences import NEXTVAL
from herdpy_sql.system import definitions
from herdpy_sql.system.conditions import condition_text, expression_text
from herdpy_sql.system.contents import (
    BTREE,
    HEAP,
    OWNER_OID,
    PG_CATALOG_OID,
    SCHEMAS,
    Context,
    Rows,
    always_in,
    of_catalog,
    rows_of,
    schema_oid,
    sequences,
    views,
)
from herdpy_sql.system.definitions import Relating, indexes_of, table_oid
from herdpy_sql.system.ownership import owned_relation
from herdpy_sql.system.types import by_oid, own_type, type_oid
from herdpy_sql.system_relations import relations
from herdpy_sql.types import BIGINT, ENUM_ARRAYS, INTEGER, SMALLINT, VECTOR, Base, array_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_sql.catalog import Catalog, Table
    from herdpy_sql.types import SqlType


_TYPES = {"smallint": SMALLINT, "integer": INTEGER, "bigint": BIGINT}
_CLASS, _CONSTRAINT, _NAMESPACE, _TYPE = 1259, 2606, 2615, 1247


def shown_default(catalog: Catalog, text: str | None) -> str | None:
    """A DEFAULT as PostgreSQL prints it: with the name of the sequence that it takes values of."""
    if text is None or "nextval" not in text.lower():
        return text

    def named(match: Any) -> str:
        one = next((one for one in catalog.objects.values() if one.oid == int(match[1])), None)
        if one is None:
            return str(match[0])
        name = quote_ident(one.name)
        if one.schema not in catalog.path:
            name = f"{quote_ident(one.schema)}.{name}"
        return f"nextval('{name}'::regclass)"

    return NEXTVAL.sub(named, text)


@of_catalog("pg_sequence")
@rows_of("pg_catalog", "pg_sequence")
def _sequence_rows(context: Context) -> Rows:
    for one, what in sequences(context.catalog):
        yield {
            "seqrelid": one.oid, "seqtypid": _TYPES[what.type].oid, "seqstart": what.start,
            "seqincrement": what.increment, "seqmax": what.maximum, "seqmin": what.minimum,
            "seqcache": what.cache, "seqcycle": what.cycle,
        }  # fmt: skip


def _owner(context: Context, one: CatalogObject) -> str:
    key = owner_of(context.catalog, subject_of(one))
    return context.role_names().get(key, key)


def sequence_values(context: Context) -> Iterator[tuple[int, int, bool]]:
    """(object id, value, whether that was given already) of each sequence."""
    for row in context.state.facts("sequences"):
        yield row["oid"], row["value"], row["called"]


@rows_of("pg_catalog", "pg_sequences")
def _sequence_view(context: Context) -> Rows:
    given = {oid: value for oid, value, called in sequence_values(context) if called}
    for one, what in sequences(context.catalog):
        yield {
            "schemaname": one.schema, "sequencename": one.name, "sequenceowner": _owner(context, one),
            "data_type": what.type, "start_value": what.start, "min_value": what.minimum,
            "max_value": what.maximum, "increment_by": what.increment, "cycle": what.cycle,
            "cache_size": what.cache, "last_value": given.get(one.oid),
        }  # fmt: skip


def comments(catalog: Catalog) -> Iterator[tuple[int, int, int, str]]:
    """(object id, id of the system table that it is in, column or 0, text)."""
    for one in catalog.objects.values():
        what = one.definition
        if not isinstance(what, CommentDefinition):
            continue
        place = _place(catalog, one.name, what)
        if place is not None:
            yield (*place, what.column + 1, what.text)


def _place(catalog: Catalog, name: str, what: CommentDefinition) -> tuple[int, int] | None:
    if what.on == "relation":
        return 16384 + what.id, _CLASS
    if what.on == "type":
        return 16384 + what.id, _TYPE
    if what.on == "schema":
        return schema_oid(catalog, name.partition(" ")[2]), _NAMESPACE
    if what.on == "constraint" and what.id in catalog.tables:
        oid = _constraint_oid(catalog.tables[what.id], name.split(" ", 2)[2])
        return None if oid is None else (oid, _CONSTRAINT)
    return None


def _constraint_oid(table: Table, name: str) -> int | None:
    """The object id of a table's constraint of that name, if it is there still."""
    for index in indexes_of(table):
        if index.constraint and index.name == name:
            return definitions.constraint_oid(index)
    named = [*(one.name for one in table.checks), *(one.name for one in table.foreign_keys)]
    return definitions.check_oid(table, named.index(name)) if name in named else None


@of_catalog("pg_description")
@rows_of("pg_catalog", "pg_description")
def _descriptions(context: Context) -> Rows:
    for oid, kind, column, text in comments(context.catalog):
        yield {"objoid": oid, "classoid": kind, "objsubid": column, "description": text}


_RELATIONS, _RULES = 1259, 2618
_AUTOMATIC, _INTERNAL, _NORMAL = "a", "i", "n"


def tables(catalog: Catalog) -> list[Table]:
    """Users' tables by name."""
    return sorted(catalog.tables.values(), key=lambda table: table.name)


def _class(oid: int, name: str, schema: int, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "oid": oid,
        "relname": name,
        "relnamespace": schema,
        "relkind": kind,
        "reltype": 0,
        "reloftype": 0,
        "relowner": OWNER_OID,
        "relam": {"r": HEAP, "i": BTREE, "I": BTREE}.get(kind, 0),
        "relfilenode": oid if kind != "v" else 0,
        "reltablespace": 0,
        "relpages": 0,
        "reltuples": -1.0 if kind == "r" else 0.0,
        "relallvisible": 0,
        "reltoastrelid": 0,
        "relhasindex": False,
        "relisshared": False,
        "relpersistence": "p",
        "relchecks": 0,
        "relhasrules": kind == "v",
        "relhastriggers": False,
        "relhassubclass": False,
        "relrowsecurity": False,
        "relforcerowsecurity": False,
        "relispopulated": True,
        "relreplident": "d" if kind in ("r", "p") else "n",
        "relispartition": False,
        "relpartbound": None,
        "relrewrite": 0,
        "relfrozenxid": 0,
        "relminmxid": 0,
        **more,
    }


def _owned(context: Context, one: Table | CatalogObject) -> dict[str, Any]:
    whose = owned_relation(context, one)
    return {"relowner": whose.oid, "relacl": whose.acl}


@always_in("pg_class")
def _builtin_classes() -> Rows:
    for relation in relations().values():
        schema = SCHEMAS[relation.schema]
        yield _class(relation.oid, relation.name, schema, relation.kind, relnatts=len(relation.columns))


@rows_of("pg_catalog", "pg_class")
def _classes(context: Context) -> Rows:
    for table in tables(context.catalog):
        indexes = list(indexes_of(table))
        whole, part = table.partition_key is not None, table.bound is not None
        yield _class(
            table_oid(table),
            table.name,
            schema_oid(context.catalog, table.schema),
            "p" if whole else "r",
            **_owned(context, table),
            relpersistence=_persistence(table.schema),
            relnatts=len(table.visible),
            relchecks=len(table.checks),
            relhasindex=bool(indexes),
            relhastriggers=definitions.has_triggers(context.catalog, table),
            relreplident="f" if table.identity_full else "d",
            relhassubclass=whole and table.id in context.catalog.partitions,
            relispartition=part,
            relpartbound=bound_text(table) if part else None,
        )
        for index in indexes:
            schema = schema_oid(context.catalog, table.schema)
            owner = owned_relation(context, table).oid
            yield _class(
                index.oid,
                index.name,
                schema,
                "I" if whole else "i",
                relnatts=len(index.parts),
                relowner=owner,
                relpersistence=_persistence(table.schema),
                relispartition=index.is_part,
            )
    for one, _definition in sequences(context.catalog):
        yield _object_class(context, one, "S", 3)
    for one, view in views(context.catalog):
        yield _object_class(context, one, "v", len(view.columns))


def _object_class(context: Context, one: CatalogObject, kind: str, columns: int) -> dict[str, object]:
    schema, persistence = schema_oid(context.catalog, one.schema), _persistence(one.schema)
    owned = _owned(context, one)
    return _class(one.oid, one.name, schema, kind, relnatts=columns, relpersistence=persistence, **owned)


def _persistence(schema: str) -> str:
    return "t" if is_temporary(schema) else "p"


@of_catalog("pg_depend")
@rows_of("pg_catalog", "pg_depend")
def _dependencies(context: Context) -> Rows:
    """Which column a sequence goes with, and what a view reads (as a whole: which columns is not kept)."""
    by_id = {table.id: table for table in tables(context.catalog)}
    for one, what in sequences(context.catalog):
        owner = what.owner
        if owner is not None and owner[0] in by_id:
            yield {
                "classid": _RELATIONS, "objid": one.oid, "objsubid": 0, "refclassid": _RELATIONS,
                "refobjid": table_oid(by_id[owner[0]]), "refobjsubid": owner[1] + 1,
                "deptype": _INTERNAL if what.identity else _AUTOMATIC,
            }  # fmt: skip
    yield from _view_dependencies(context)


def _view_dependencies(context: Context) -> Rows:
    """A view's rule is a part of the view, and depends on what it reads, and on the view, too."""
    oids = {one.id: table_oid(one) for one in tables(context.catalog)}
    oids |= {one.id: one.oid for one, _definition in (*views(context.catalog), *sequences(context.catalog))}
    for one, view in views(context.catalog):
        row = {
            "classid": _RULES, "objid": rule_oid(one), "objsubid": 0, "refclassid": _RELATIONS,
            "refobjsubid": 0,
        }  # fmt: skip
        yield {**row, "refobjid": one.oid, "deptype": _INTERNAL}
        for used in (one.id, *view.uses):
            if used in oids:
                yield {**row, "refobjid": oids[used], "deptype": _NORMAL}


_CALL = re.compile(r"([a-z_]\w*)\(")
_MODIFIERS = re.compile(r"\((\d+)(?:,(-?\d+))?\)")


def _modifier(shown: str) -> int:
    """The modifier of a type as format_type shows it: "numeric(8,2)", "character varying(10)"."""
    found = _MODIFIERS.search(shown)
    if found is None or shown.endswith("]"):
        return -1
    if found[2] is not None:
        return (int(found[1]) << 16 | int(found[2])) + 4
    return int(found[1]) + (4 if shown.startswith("character") else 0)


def _own_type(type_id: int) -> Mapping[str, Any]:
    """How values of a type are kept that is not PostgreSQL's own: of an ENUM, or of any length."""
    is_array = type_id in (array_of(VECTOR).oid, 0) or type_id >= ENUM_ARRAYS
    if is_array or type_id == VECTOR.oid:
        return {**by_oid()[1009], "typcategory": "A" if is_array else "U", "typcollation": 0}
    return {**by_oid()[23], "typcategory": "E"}


def _attribute(oid: int, number: int, name: str, type_id: int, typmod: int, **more: Any) -> dict[str, Any]:
    row = by_oid().get(type_id) or _own_type(type_id)
    return {
        "attrelid": oid,
        "attname": name,
        "atttypid": type_id,
        "attstattarget": -1,
        "attlen": int(row["typlen"]),
        "attnum": number,
        "attndims": 1 if row["typcategory"] == "A" else 0,
        "attcacheoff": -1,
        "atttypmod": typmod,
        "attbyval": row["typbyval"],
        "attalign": row["typalign"],
        "attstorage": row["typstorage"],
        "attcompression": "",
        "attnotnull": False,
        "atthasdef": False,
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": row["typcollation"] if type_id in by_oid() else 0,
        **more,
    }


@always_in("pg_attribute")
def _builtin_attributes() -> Rows:
    for relation in relations().values():
        for number, (name, type_) in enumerate(relation.columns, 1):
            yield _attribute(relation.oid, number, name, type_oid(type_) or 25, -1)


@of_catalog("pg_attribute")
@rows_of("pg_catalog", "pg_attribute")
def _attributes(context: Context) -> Rows:
    for table in tables(context.catalog):
        oid = table_oid(table)
        for position, column in enumerate(table.columns):
            if column.hidden:
                continue
            if column.dropped:
                name = f"........pg.dropped.{position + 1}........"
                yield _attribute(oid, position + 1, name, 0, -1, attisdropped=True)
                continue
            yield _attribute(
                oid,
                position + 1,
                column.name,
                column.type.oid,
                column.type.typmod,
                attndims=column.type.dimensions if column.type.base is Base.ARRAY else 0,
                attnotnull=column.not_null,
                atthasdef=(column.default is not None and not column.identity)
                or column.generated is not None,
                attidentity={"ALWAYS": "a", "BY DEFAULT": "d"}.get(column.identity, ""),
                attgenerated="s" if column.generated is not None else "",
            )
        for index in indexes_of(table):
            unnamed = 0
            for number, part in enumerate(index.parts, 1):
                column = table.columns[part.position]
                name = column.name
                if column.hidden:
                    call = _CALL.match(definitions.key_text(table, part.position))
                    name = call[1] if call else f"expr{unnamed or ''}"
                    unnamed += call is None
                yield _attribute(index.oid, number, name, column.type.oid, column.type.typmod)
    for one, view in views(context.catalog):
        for number, (name, type_) in enumerate(view.columns, 1):
            own = own_type(context.catalog, type_.partition("(")[0])
            oid, modifier = (type_oid(type_) or 25, _modifier(type_)) if own is None else (own["oid"], -1)
            yield _attribute(one.oid, number, name, oid, modifier)


@of_catalog("pg_attrdef")
@rows_of("pg_catalog", "pg_attrdef")
def _defaults(context: Context) -> Rows:
    for table in tables(context.catalog):
        for position in table.visible:
            column = table.columns[position]
            if column.default is not None and not column.identity:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": shown_default(context.catalog, definitions.default_text(column)),
                }
            elif column.generated is not None:
                yield {
                    "oid": definitions.default_oid(table, position),
                    "adrelid": table_oid(table),
                    "adnum": position + 1,
                    "adbin": expression_text(table, column.generated),
                }


def udt_name(sql_type: SqlType) -> str:
    """The internal name of a type: "int4"."""
    if sql_type.base is Base.UNKNOWN:
        return "text"
    found = by_oid().get(sql_type.oid)
    if found is not None:
        return str(found["typname"])
    if sql_type.enum is not None:
        name = sql_type.enum.name
    else:
        name = sql_type.name if sql_type.element is None else sql_type.element_type.name
    return f"_{name}" if sql_type.element is not None else name


OPERATOR_CLASSES = {
    16: 10003, 17: 10006, 18: 10007, 19: 10028, 20: 3124, 21: 1979, 23: 1978, 25: 3126, 26: 1981, 700: 10012,
    701: 3123, 829: 10024, 1042: 10004, 1043: 3126, 1082: 3122, 1083: 10038, 1114: 3128, 1184: 3127,
    1186: 10022, 1700: 3125, 2950: 10065,
}  # fmt: skip
_DESCENDING, _NULLS_FIRST = 1, 2


@of_catalog("pg_index")
@rows_of("pg_catalog", "pg_index")
def _indexes(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            types = [table.columns[part.position].type for part in index.parts]
            yield {
                "indexrelid": index.oid,
                "indrelid": table_oid(table),
                "indnatts": len(index.parts),
                "indnkeyatts": len(index.parts),
                "indisunique": index.unique,
                "indnullsnotdistinct": False,
                "indisprimary": index.primary,
                "indisexclusion": False,
                "indimmediate": not index.deferrable,
                "indisclustered": False,
                "indisvalid": True,
                "indcheckxmin": False,
                "indisready": True,
                "indislive": True,
                "indisreplident": False,
                "indkey": [
                    0 if table.columns[part.position].hidden else part.position + 1 for part in index.parts
                ],
                "indexprs": ", ".join(
                    definitions.key_text(table, part.position)
                    for part in index.parts
                    if table.columns[part.position].hidden
                )
                or None,
                "indpred": definitions.predicate_text(index),
                "indcollation": [by_oid()[t.oid]["typcollation"] for t in types],
                "indclass": [OPERATOR_CLASSES.get(t.oid, 0) for t in types],
                "indoption": [
                    part.descending * _DESCENDING + part.nulls_first * _NULLS_FIRST for part in index.parts
                ],
            }


def index_definitions(catalog: Catalog) -> Iterator[tuple[int, int, str, str]]:
    """(index, column or 0 for all, text, text without the schema) for pg_get_indexdef."""
    for table in tables(catalog):
        for index in indexes_of(table):
            full = definitions.index_text(index, schema=True)
            yield index.oid, 0, full, definitions.index_text(index, schema=False)
            for number, part in enumerate(index.parts, 1):
                name = definitions.key_text(table, part.position)
                yield index.oid, number, name, name


@of_catalog("pg_opclass")
@rows_of("pg_catalog", "pg_opclass")
def _operator_classes(context: Context) -> Rows:
    del context
    seen = set()
    for type_id, oid in OPERATOR_CLASSES.items():
        if oid not in seen:
            seen.add(oid)
            yield {
                "oid": oid, "opcmethod": 403, "opcname": f"{by_oid()[type_id]['typname']}_ops",
                "opcnamespace": PG_CATALOG_OID, "opcowner": OWNER_OID, "opcfamily": 0, "opcintype": type_id,
                "opcdefault": True, "opckeytype": 0,
            }  # fmt: skip


def _constraint(
    catalog: Catalog, table: Table, oid: int, name: str, kind: str, **more: Any
) -> dict[str, Any]:
    return {
        "oid": oid,
        "conname": name,
        "connamespace": schema_oid(catalog, table.schema),
        "contype": kind,
        "condeferrable": False,
        "condeferred": False,
        "convalidated": True,
        "conrelid": table_oid(table),
        "contypid": 0,
        "conindid": 0,
        "conparentid": 0,
        "confrelid": 0,
        "confupdtype": " ",
        "confdeltype": " ",
        "confmatchtype": " ",
        "conislocal": True,
        "coninhcount": 0,
        "connoinherit": kind != "c",
        **more,
    }


def constraint_indexes(table: Table) -> list[Relating]:
    """The indexes that serve a constraint: the key and UNIQUE ones."""
    return [index for index in indexes_of(table) if index.constraint]


@of_catalog("pg_constraint")
@rows_of("pg_catalog", "pg_constraint")
def _constraints(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in constraint_indexes(table):
            yield _constraint(
                context.catalog,
                table,
                definitions.constraint_oid(index),
                index.name,
                "p" if index.primary else "u",
                condeferrable=index.deferrable,
                condeferred=index.deferred,
                conindid=index.oid,
                conkey=[part.position + 1 for part in index.parts],
            )
        for number, check in enumerate(table.checks):
            yield _constraint(
                context.catalog,
                table, definitions.check_oid(table, number), check.name, "c", conbin=check.condition,
                convalidated=check.validated, conkey=definitions.check_columns(table, check),
            )  # fmt: skip
    for oid, table, one, parent in definitions.foreign_keys(context.catalog):
        yield _constraint(
            context.catalog, table, oid, one.name, "f", **definitions.constraint_columns(one, parent)
        )


def constraint_definitions(catalog: Catalog) -> Iterator[tuple[int, str, str]]:
    """(constraint, text, pretty text) for pg_get_constraintdef."""
    for table in tables(catalog):
        for index in constraint_indexes(table):
            text = definitions.constraint_text(index)
            yield definitions.constraint_oid(index), text, text
        for number, check in enumerate(table.checks):
            oid = definitions.check_oid(table, number)
            plain = condition_text(table, check.condition, pretty=False) or f"({check.condition})"
            pretty = condition_text(table, check.condition, pretty=True) or check.condition
            mark = "" if check.validated else " NOT VALID"
            yield oid, f"CHECK ({plain}){mark}", f"CHECK ({pretty}){mark}"
    for oid, table, one, parent in definitions.foreign_keys(catalog):
        text = definitions.foreign_key_text(table, one, parent)
        yield oid, text, text


@rows_of("pg_catalog", "pg_tables")
def _table_view(context: Context) -> Rows:
    flags = {"hasrules": False, "hastriggers": False, "rowsecurity": False}
    owner = context.role_names().get(SYSTEM, SYSTEM)
    for table in tables(context.catalog):
        whose = owned_relation(context, table).name
        indexed = any(True for _ in indexes_of(table))
        yield {
            "schemaname": table.schema, "tablename": table.name, "tableowner": whose,
            "hasindexes": indexed, **flags,
        }  # fmt: skip
    for relation in relations().values():
        if relation.kind == "r":
            yield {
                "schemaname": relation.schema, "tablename": relation.name, "tableowner": owner,
                "hasindexes": False, **flags,
            }  # fmt: skip


@rows_of("pg_catalog", "pg_views")
def _view_view(context: Context) -> Rows:
    for one, _definition in views(context.catalog):
        yield {
            "schemaname": one.schema, "viewname": one.name, "viewowner": owned_relation(context, one).name,
            "definition": view_text(one, context.catalog) + ";",
        }  # fmt: skip
    owner = context.role_names().get(SYSTEM, SYSTEM)
    for relation in relations().values():
        if relation.kind == "v":
            yield {
                "schemaname": relation.schema, "viewname": relation.name, "viewowner": owner,
            }  # fmt: skip


@rows_of("pg_catalog", "pg_indexes")
def _index_view(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "schemaname": table.schema,
                "tablename": table.name,
                "indexname": index.name,
                "indexdef": definitions.index_text(index, schema=True),
            }


_UNCOUNTED = dict.fromkeys(
    """seq_scan seq_tup_read idx_scan idx_tup_fetch n_tup_ins n_tup_upd n_tup_del n_tup_hot_upd n_live_tup
    n_dead_tup n_mod_since_analyze n_ins_since_vacuum vacuum_count autovacuum_count analyze_count
    autoanalyze_count heap_blks_read heap_blks_hit idx_blks_read idx_blks_hit idx_tup_read""".split(),  # noqa: SIM905
    0,
)
"""What is not counted by table. Clients add these up, and would have NULL of one that was missing."""


def rule_oid(view: CatalogObject) -> int:
    """The object id of the rule that a view is."""
    return (1 << 28) + view.oid


@rows_of("pg_catalog", "pg_rewrite")
def _rules(context: Context) -> Rows:
    """A view is a rule, says PostgreSQL."""
    for one, _definition in views(context.catalog):
        yield {
            "oid": rule_oid(one), "rulename": "_RETURN", "ev_class": one.oid, "ev_type": "1",
            "ev_enabled": "O", "is_instead": True,
        }  # fmt: skip


@rows_of("pg_catalog", "pg_stat_user_tables", "pg_stat_all_tables")
def _table_changes(context: Context) -> Rows:
    counts = context.table_counts()
    for row in _table_statistics(context):
        found = counts.get(row["relid"])
        if found is None:
            yield row
        else:
            yield {
                **row, "n_tup_ins": found["inserted"], "n_tup_upd": found["updated"],
                "n_tup_del": found["deleted"], "n_live_tup": found["rows"],
            }  # fmt: skip


@rows_of("pg_catalog", "pg_statio_user_tables", "pg_statio_all_tables")
def _table_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        yield {
            "relid": table_oid(table), "schemaname": table.schema, "relname": table.name, **_UNCOUNTED,
        }  # fmt: skip


@rows_of("pg_catalog", "pg_stat_user_indexes", "pg_stat_all_indexes", "pg_statio_user_indexes")
def _index_statistics(context: Context) -> Rows:
    for table in tables(context.catalog):
        for index in indexes_of(table):
            yield {
                "relid": table_oid(table), "indexrelid": index.oid, "schemaname": table.schema,
                "relname": table.name, "indexrelname": index.name, **_UNCOUNTED,
            }  # fmt: skip
