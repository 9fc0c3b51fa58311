"""What a statement needs its role to be allowed: from its text and the catalog, without regard to who asks.

Asked once for a plan and a role that may not do everything (never for a superuser), so it parses the text
once more and does not bear on planning. A view asks its user for itself, and its owner for what is behind it.
What is not known without binding (does an UPDATE read its table?) is answered with yes. Statements of
definition need to make things in a schema, and to own what is altered or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import FIRST_USER_OID, CatalogObject
from herdpy_sql.parse import Command, CopyStatement, parse, split
from herdpy_sql.parse.as_of import as_of
from herdpy_sql.parse.commands import described
from herdpy_sql.parse.lexer import TokenCursor
from herdpy_sql.parse.object_commands import ObjectCommand, TypeCommand
from herdpy_sql.parse.program_commands import ProgramCommand
from herdpy_sql.plan.names import target_schema
from herdpy_sql.plan.programs import find_programs
from herdpy_sql.plan.scope import name_of
from herdpy_sql.plan.views import definition_of, is_target, view_query
from herdpy_sql.programs.routines import candidates
from herdpy_sql.rights.held import DATABASE, Subject, judged_by, owner_of, schema_subject, subject_of
from herdpy_sql.rights.need import OWNER, SUPERUSER, Need, owner_needs, relation_needs, schema_needs
from herdpy_sql.sequences import sequences_of, split_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from herdpy_sql.catalog import Catalog, Relation
    from herdpy_sql.parse import Statement
    from herdpy_sql.parse.lexer import QualifiedName


_LOCKS = {
    "ACCESS SHARE": "rawdD",
    "ROW SHARE": "rwdD",
    "ROW EXCLUSIVE": "awdD",
}
"""Privileges one of which is enough for LOCK TABLE; of stronger modes "wdD"."""


def needs_of_command(command: Command, catalog: Catalog) -> Iterator[Need]:
    """Of a statement of fixed words; nothing for those that judge by themselves, or are anybody's."""
    if isinstance(command, TypeCommand):
        yield from _of_type(command, catalog)
    elif isinstance(command, ProgramCommand):
        yield from _of_program(command, catalog)
    elif isinstance(command, ObjectCommand):
        yield from _of_object(command, catalog)
    elif command.name in {"DROP TABLE", "DROP INDEX"}:
        yield from _owned(command.names, catalog, drops=True)
    elif command.name in {"ALTER TABLE", "ALTER INDEX"}:
        yield from _owned(command.names, catalog)
        yield from _of_actions(command, catalog)
    elif command.name == "TRUNCATE":
        yield from _of_truncate(command, catalog)
    elif command.name == "LOCK":
        for name in command.names:
            found = catalog.find(*name)
            if found is not None:
                letters = _LOCKS.get(command.argument, "wdD")
                yield from relation_needs(catalog, found, letters, named=name[0] is not None)
    elif command.name == "CLUSTER":
        yield from _owned(command.names[:1], catalog)
    elif command.name in {"ANALYZE", "VACUUM", "REINDEX"}:
        if command.names and command.argument != "SCHEMA":
            yield from _owned(command.names, catalog)
        else:
            yield Need(DATABASE, OWNER)
    elif command.name == "CHECKPOINT":
        yield Need(
            Subject("", 0, "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT"),
            SUPERUSER,
        )


def needs_of_create(tree: exp.Expression, catalog: Catalog) -> Iterator[Need]:
    """Of CREATE TABLE and CREATE INDEX; of SELECT INTO, too."""
    if isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() == "INDEX":
        table = tree.this.args.get("table")
        if table is not None:
            yield from _owned(((_schema(table), name_of(table.this)),), catalog)
        return
    target = tree.this if isinstance(tree, exp.Create) else tree.args["into"].this
    target = target.this if isinstance(target, exp.Schema) else target
    into = tree.args.get("into")
    temporary = into is not None and bool(into.args.get("temporary"))
    if tree.find(exp.TemporaryProperty) is not None or temporary or _schema(target) == "pg_temp":
        yield Need(DATABASE, "T")
    else:
        yield from _creates(catalog, _schema(target), name_of(target.this))
    whole = tree.find(exp.PartitionedOfProperty)
    if whole is not None and isinstance(whole.this, exp.Table):
        yield from _owned(((_schema(whole.this), name_of(whole.this.this)),), catalog)
    for reference in tree.find_all(exp.Reference):
        node = reference.this.this if isinstance(reference.this, exp.Schema) else reference.this
        if isinstance(node, exp.Table) and name_of(node.this) != name_of(target.this):
            yield from _referred(catalog, _schema(node), name_of(node.this))


def _schema(node: exp.Expression) -> str | None:
    schema = node.args.get("db")
    return None if schema is None else name_of(schema)


def _creates(catalog: Catalog, schema: str | None, name: str) -> Iterator[Need]:
    yield from schema_needs(catalog, target_schema(catalog, schema, name), "C")


def _referred(catalog: Catalog, schema: str | None, name: str) -> Iterator[Need]:
    found = catalog.find(schema, name)
    if isinstance(found, Table):
        yield from relation_needs(catalog, found, "x", named=schema is not None)


def _owned(names: tuple[QualifiedName, ...], catalog: Catalog, *, drops: bool = False) -> Iterator[Need]:
    for schema, name in names:
        found: Relation | None = catalog.find(schema, name)
        if found is None:  # it may be the index of a key, which goes by no name of its own
            found = catalog.table_of_key(schema, name)
        if found is not None:
            yield from owner_needs(catalog, found, drops=drops)


def _of_actions(command: Command, catalog: Catalog) -> Iterator[Need]:
    """ALTER TABLE: what is besides the table."""
    for action in command.actions:
        if action.kind == "SET SCHEMA":
            yield from schema_needs(catalog, action.name, "C")
        if action.kind == "ATTACH PARTITION":
            yield from _owned(((action.using or None, action.name),), catalog)
        for schema, name in _references(action.text):
            if name not in {one for _schema, one in command.names}:
                yield from _referred(catalog, schema, name)


def _references(text: str) -> Iterator[QualifiedName]:
    """The tables after REFERENCES in the text of a column or constraint."""
    if "REFERENCES" not in text.upper():
        return
    cursor = TokenCursor(split(text)[0])
    while cursor.at < len(cursor.tokens):
        if cursor.accept("REFERENCES"):
            name = cursor.name()
            yield (name, cursor.name()) if cursor.accept(".") else (None, name)
        else:
            cursor.at += 1


def _of_truncate(command: Command, catalog: Catalog) -> Iterator[Need]:
    chosen = [found for name in command.names if isinstance(found := catalog.find(*name), Table)]
    named = {(schema is not None, name) for schema, name in command.names}
    if "CASCADE" in command.options:
        for one in chosen:  # it grows meanwhile
            for child, _key in catalog.referencing.get(one.id, ()):
                if child not in chosen:
                    chosen.append(child)
    for one in chosen:
        yield from relation_needs(catalog, one, "D", named=(False, one.name) not in named)
        if "RESTART IDENTITY" in command.options:
            yield from owner_needs(catalog, one)


def _of_type(command: TypeCommand, catalog: Catalog) -> Iterator[Need]:
    for schema, name in command.names:
        if command.name.startswith("CREATE"):
            yield from _creates(catalog, schema, name)
            continue
        for path in catalog.path if schema is None else (schema,):
            found = catalog.object("enum", path, name)
            if found is not None:
                drops = command.name.startswith("DROP")
                instead = schema_subject(catalog, path) if drops else None
                yield Need(subject_of(found), OWNER, instead=instead)
                break


def _of_program(command: ProgramCommand, catalog: Catalog) -> Iterator[Need]:
    """Of functions and procedures: a schema to make one in; to own what is replaced, altered or dropped."""
    if ("leakproof", "t") in command.settings:
        yield Need(Subject("", 0, "only superuser can define a leakproof function"), SUPERUSER)
    for schema, name in command.names:
        yield from _creates(catalog, schema, name)
        for one in candidates(catalog, schema, name) if "OR REPLACE" in command.options else ():
            yield Need(subject_of(one), OWNER)
    for signature in command.signatures:
        try:
            one = find_programs(signature, "ROUTINE", catalog)
        except SqlError:
            continue  # IF EXISTS; else planning has raised it
        instead = schema_subject(catalog, one.schema) if command.name.startswith("DROP") else None
        yield Need(subject_of(one), OWNER, instead=instead)
    if command.action == "SET SCHEMA":
        yield from schema_needs(catalog, command.word, "C")
    if command.call is not None:
        tree = parse(command.call)
        if isinstance(tree, exp.Expression):
            yield from _Reader(catalog).tree(tree)


def _of_object(command: ObjectCommand, catalog: Catalog) -> Iterator[Need]:
    name = command.name
    if name == "COMMENT":
        yield from _of_comment(command, catalog)
    elif name == "CREATE SCHEMA":
        yield Need(DATABASE, "C")
    elif name.endswith("SCHEMA"):
        for _none, one in command.names:
            if catalog.has_schema(one):
                yield Need(schema_subject(catalog, one), OWNER)
        if name == "ALTER SCHEMA":
            yield Need(DATABASE, "C")
    elif name.startswith("CREATE"):
        for schema, one in command.names:
            there = catalog.find(schema, one)
            if there is not None and isinstance(there, CatalogObject):
                yield from owner_needs(catalog, there)  # OR REPLACE
            if command.is_temporary:
                yield Need(DATABASE, "T")
            else:
                yield from _creates(catalog, schema, one)
    else:
        yield from _owned(command.names, catalog, drops=name.startswith("DROP"))
        if command.action == "SET SCHEMA":
            yield from schema_needs(catalog, command.words[0], "C")


def _of_comment(command: ObjectCommand, catalog: Catalog) -> Iterator[Need]:
    kind, words = command.action, command.words
    if kind == "COLUMN":
        words = words[:-1]
    if kind == "CONSTRAINT":
        yield from _owned(command.names, catalog)
    elif kind == "SCHEMA":
        yield Need(schema_subject(catalog, words[0]), OWNER)
    elif kind in {"DATABASE", "TABLESPACE"}:
        yield Need(DATABASE, OWNER)
    elif kind == "ROLE":
        yield Need(Subject("", 0, "must be superuser to comment on a role"), SUPERUSER)
    elif kind == "TYPE":
        yield from _of_type(TypeCommand("ALTER TYPE", names=(_pair(words),)), catalog)
    else:
        yield from _owned((_pair(words),), catalog)


def _pair(words: tuple[str, ...]) -> QualifiedName:
    return (words[0], words[1]) if len(words) > 1 else (None, words[0])


_ACTS = {"nextval": "Uw", "currval": "Ur", "setval": "w"}
_DEEPEST = 32


def needs(statement: Statement, catalog: Catalog) -> list[Need]:
    """What it needs. The statement was planned with this catalog: every name in it means something."""
    return list(dict.fromkeys(_Reader(catalog).statement(described(statement))))


@dataclass(frozen=True)
class _Reader:
    catalog: Catalog

    def statement(self, statement: Statement) -> Iterator[Need]:
        tree = parse(statement)
        if isinstance(tree, CopyStatement):
            yield from self._copy(tree)
        elif isinstance(tree, Command):
            if tree.inner is not None and tree.name in {"EXPLAIN", "DECLARE"}:
                yield from self.statement(tree.inner)
            elif tree.name not in {"PREPARE", "EXECUTE"}:
                yield from needs_of_command(tree, self.catalog)
        else:
            yield from self.tree(tree)

    def tree(self, tree: exp.Expression) -> Iterator[Need]:
        """Of a query, a statement that changes rows, or a definition with a query in it."""
        past = self.catalog.past
        if past is not None and as_of(tree) is not None:
            reads = _Reader(judged_by(replace(past, past=None), self.catalog))
            yield from self._of(tree, reads)
        else:
            yield from self._of(tree, self)

    def _of(self, tree: exp.Expression, reads: _Reader) -> Iterator[Need]:
        """``reads`` knows what the tables mean that are read."""
        if isinstance(tree, exp.Create):
            yield from needs_of_create(tree, self.catalog)
            if not isinstance(tree.args.get("expression"), exp.Query | exp.Values):
                return
        elif isinstance(tree, exp.Select) and tree.args.get("into") is not None:
            yield from needs_of_create(tree, self.catalog)
        for change in tree.find_all(exp.Insert, exp.Update, exp.Delete, exp.Merge):
            yield from self._change(change)
        for node in tree.find_all(exp.Table):
            if not is_target(node) and not _is_into(node):
                yield from reads._read(node, _locked(node))
        yield from self._calls(tree)

    def _found(self, node: exp.Table) -> CatalogObject | Table | None:
        if not isinstance(node.this, exp.Identifier) or _is_with(node):
            return None
        schema = node.args.get("db")
        found = self.catalog.find(None if schema is None else name_of(schema), name_of(node.this))
        return found if isinstance(found, CatalogObject | Table) else None

    def _read(self, node: exp.Table, letters: str) -> Iterator[Need]:
        found = self._found(node)
        if found is None:
            return
        named = node.args.get("db") is not None
        for letter in letters:
            yield from relation_needs(self.catalog, found, letter, named=named)
        yield from self.behind(found, letters)

    def behind(self, found: CatalogObject | Table, letters: str, depth: int = 0) -> Iterator[Need]:
        """What the owner of a view needs for what the user does with it."""
        if not isinstance(found, CatalogObject) or found.kind != "view" or depth > _DEEPEST:
            return
        owner = owner_of(self.catalog, subject_of(found))
        target = self._target(found) if letters != "r" else None
        for number in definition_of(found).uses:
            one = self.catalog.tables.get(number) or self.catalog.objects.get(number)
            if one is None or (isinstance(one, CatalogObject) and one.kind != "view"):
                continue
            wanted = letters if one is target else "r"
            for letter in wanted:
                for need in relation_needs(self.catalog, one, letter, named=True):
                    yield replace(need, by=owner)
            yield from self.behind(one, wanted, depth + 1)

    def _target(self, view: CatalogObject) -> CatalogObject | Table | None:
        """What a change of a view changes."""
        source = view_query(view, self.catalog).args.get("from_")
        return self._found(source.this) if source is not None and isinstance(source.this, exp.Table) else None

    # Changes of rows.

    def _change(self, change: exp.Expression) -> Iterator[Need]:
        target = change.this.this if isinstance(change.this, exp.Schema) else change.this
        found = self._found(target) if isinstance(target, exp.Table) else None
        if found is None:
            return
        letters = _letters(change, target, found)
        named = target.args.get("db") is not None
        for letter in letters:
            yield from relation_needs(self.catalog, found, letter, named=named)
        yield from self.behind(found, letters)
        if "a" in letters and isinstance(found, Table):
            yield from self._defaults(change, found)

    def _defaults(self, change: exp.Expression, table: Table) -> Iterator[Need]:
        """Sequences that defaults take values of; those of identity columns are their tables'."""
        named: set[str] = set()
        if isinstance(change, exp.Insert) and isinstance(change.this, exp.Schema):
            named = {name_of(one) for one in change.this.expressions if isinstance(one, exp.Identifier)}
        for column in table.columns:
            if not column.visible or column.default is None or column.identity or column.name in named:
                continue
            for number in sequences_of(column.default):
                if number in self.catalog.objects:
                    yield Need(subject_of(self.catalog.objects[number]), "Uw")

    def _calls(self, tree: object) -> Iterator[Need]:
        """Of nextval and its kin."""
        if not isinstance(tree, exp.Expression):
            return
        for node in tree.find_all(exp.Anonymous):
            yield from self._of_schema(node)
            letters = _ACTS.get(str(node.this).lower())
            if letters is None:
                continue
            one = self._sequence(node.expressions[0]) if node.expressions else None
            if one is not None:
                yield Need(subject_of(one), letters)

    def _of_schema(self, node: exp.Anonymous) -> Iterator[Need]:
        """Of a call with a schema: to look into that."""
        parent = node.parent
        schema = None
        if isinstance(parent, exp.Dot) and isinstance(parent.this, exp.Identifier):
            schema = name_of(parent.this)
        elif isinstance(parent, exp.Table) and parent.args.get("db") is not None:
            schema = name_of(parent.args["db"])
        if schema is not None and self.catalog.object("schema", "", schema) is not None:
            yield from schema_needs(self.catalog, schema, "U")

    def _sequence(self, name: exp.Expression) -> CatalogObject | None:
        """The sequence that an argument names; None where it is not written there."""
        name = name.this if isinstance(name, exp.Cast) else name
        if not isinstance(name, exp.Literal):
            return None
        text = str(name.this)
        if text.isdecimal():
            return self.catalog.objects.get(int(text) - FIRST_USER_OID)
        found = self.catalog.find(*split_name(text))
        return found if isinstance(found, CatalogObject) and found.kind == "sequence" else None

    def _copy(self, tree: CopyStatement) -> Iterator[Need]:
        if tree.query is not None:
            yield from self.statement(tree.query)
        elif tree.parameters_of is not None:
            for one in split(tree.parameters_of):
                yield from self.statement(one)
        elif tree.table is not None:
            found = self.catalog.find(*tree.table)
            if isinstance(found, CatalogObject | Table):
                letter = "a" if tree.is_from else "r"
                yield from relation_needs(self.catalog, found, letter, named=tree.table[0] is not None)
                yield from self.behind(found, letter)


def _letters(change: exp.Expression, target: exp.Table, table: CatalogObject | Table) -> str:
    """What a change needs of its target."""
    reads = "r" if _reads(change, target, table) else ""
    if isinstance(change, exp.Update):
        return "w" + reads
    if isinstance(change, exp.Delete):
        return "d" + reads
    if isinstance(change, exp.Merge):
        kinds = {type(one.args.get("then")) for one in change.args["whens"].expressions}
        text = "a" if exp.Insert in kinds else ""
        text += "w" if exp.Update in kinds else ""
        deletes = any(
            isinstance(one.args.get("then"), exp.Var) and one.args["then"].name.upper() == "DELETE"
            for one in change.args["whens"].expressions
        )
        return text + ("d" if deletes or exp.Delete in kinds else "") + "r"
    conflict = change.args.get("conflict")
    if conflict is None:
        return "a" + reads
    updates = bool(conflict.expressions) or "UPDATE" in str(conflict.args.get("action")).upper()
    arbiter = conflict.args.get("conflict_keys") or conflict.args.get("constraint")
    upsert = str(conflict.args.get("action")).upper() == "UPSERT"
    return "a" + ("w" if updates or upsert else "") + ("r" if reads or arbiter or upsert or updates else "")


def _reads(change: exp.Expression, target: exp.Table, table: CatalogObject | Table) -> bool:
    """Whether a change looks at what is in its target: in a condition, in what it computes or returns."""
    columns = _columns_of(table)
    alias = target.args.get("alias")
    called = {name_of(alias.this)} if alias is not None else {table.name}
    written: set[int] = set()
    parts: list[exp.Expression | None] = [change.args.get("where"), change.args.get("returning")]
    if isinstance(change, exp.Update):
        for item in change.expressions:
            left = item.this if isinstance(item, exp.EQ) else None
            if left is not None:
                written |= {id(one) for one in _set(left)}
            parts.append(item)
        parts += [change.args.get("from_"), *(change.args.get("joins") or ())]
    for part in parts:
        if part is None:
            continue
        if part.find(exp.Star) is not None and part is change.args.get("returning"):
            return True
        for node in part.find_all(exp.Column):
            if id(node) in written:
                continue
            qualifier = node.args.get("table")
            if isinstance(node.this, exp.Star) or not isinstance(node.this, exp.Identifier):
                return True
            if qualifier is not None and name_of(qualifier) in called:
                return True
            if qualifier is None and name_of(node.this) in columns:
                if name_of(node.this) == "default" and not node.this.args.get("quoted"):
                    continue
                return True
    return False


def _set(left: exp.Expression) -> Iterator[exp.Column]:
    """The columns that the left side of SET writes to; those in subscripts are read."""
    if isinstance(left, exp.Column):
        yield left
    elif isinstance(left, exp.Bracket):
        yield from _set(left.this)
    elif isinstance(left, exp.Tuple | exp.Paren):
        for one in left.expressions if isinstance(left, exp.Tuple) else [left.this]:
            yield from _set(one)


def _columns_of(table: CatalogObject | Table) -> set[str]:
    if isinstance(table, Table):
        return set(table.positions)
    return {name for name, _type in definition_of(table).columns} if table.kind == "view" else set()


def _locked(node: exp.Table) -> str:
    """What FROM needs of a table: its rows are read, and perhaps locked."""
    select = node.find_ancestor(exp.Select)
    for lock in select.args.get("locks") or () if select is not None else ():
        named = [one.name for one in lock.expressions] if lock.expressions else []
        if not named or node.alias_or_name in named:
            return "rw"
    return "r"


def _is_into(node: exp.Table) -> bool:
    return isinstance(node.parent, exp.Into)


def _is_with(node: exp.Table) -> bool:
    """Whether a name without a schema is that of a query in a WITH around it."""
    if node.args.get("db") is not None:
        return False
    name = name_of(node.this)
    above: exp.Expr | None = node
    while above is not None:
        given = above.args.get("with_")
        if given is not None and any(name_of(one.args["alias"].this) == name for one in given.expressions):
            return True
        above = above.parent
    return False


def needs_of_table(catalog: Catalog, found: CatalogObject | Table, letter: str) -> list[Need]:
    """What it takes to do one thing with a table without a statement, as other doors do."""
    reader = _Reader(catalog)
    return [*relation_needs(catalog, found, letter, named=True), *reader.behind(found, letter)]
