"""Alembic on HerdPy: what is generated for a model, run, is all of it; renames, types, enums, failures."""

from __future__ import annotations

import textwrap

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from herdpy.sqlalchemy import VECTOR

MOODS = ("glad", "sad")


def models() -> sa.MetaData:
    """Tables with one of everything that autogenerate compares."""
    metadata = sa.MetaData()
    person = sa.Table(
        "person",
        metadata,
        sa.Column("id", sa.Integer, sa.Identity(start=10, increment=2), primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, comment="as printed"),
        sa.Column("mood", sa.Enum(*MOODS, name="mood"), server_default="glad"),
        sa.Column("born", sa.DateTime(timezone=True), server_default=sa.func.now()),
        sa.Column("year", sa.Integer),
        sa.Column("decade", sa.Integer, sa.Computed("year / 10", persisted=True)),
        sa.Column("place", VECTOR(3)),
        sa.UniqueConstraint("name", name="person_name_key"),
        sa.CheckConstraint("name <> ''", name="person_name_check"),
        comment="people",
    )
    sa.Index("person_lower", sa.func.lower(person.c.name))
    sa.Index("person_glad", person.c.born, postgresql_where=person.c.mood == "glad")
    sa.Table(
        "friend",
        metadata,
        sa.Column("a", sa.ForeignKey("person.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("b", sa.ForeignKey("person.id", name="friend_b"), primary_key=True),
    )
    return metadata


@pytest.fixture
def connection(tmp_path):
    engine = sa.create_engine(f"herdpy:///{tmp_path}/d")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_what_is_generated_makes_all_of_the_model(connection):
    metadata = models()
    context = MigrationContext.configure(connection, opts={"target_metadata": metadata})
    script = produce_migrations(context, metadata)
    code = render_python_code(script.upgrade_ops, migration_context=context)
    assert "VECTOR(3)" in code
    assert "start=10, increment=2" in code
    code = textwrap.dedent("    " + code)
    names = {"op": Operations(context), "sa": sa, "VECTOR": VECTOR}
    exec(code, names)
    assert compare_metadata(context, metadata) == []
    connection.execute(sa.insert(metadata.tables["person"]).values(name="Ann", year=1815, place=[1, 2, 3]))
    made = connection.execute(sa.text("SELECT id, mood, decade FROM person")).one()
    assert made == (10, "glad", 181)
    context = MigrationContext.configure(connection)
    for name in ("friend", "person"):
        Operations(context).drop_table(name)
    assert [one[0] for one in compare_metadata(context, metadata)].count("add_table") == 2


def test_differences_are_found(connection):
    metadata = models()
    metadata.create_all(connection)
    for statement in (
        "ALTER TABLE person ALTER COLUMN name TYPE VARCHAR(50)",
        "ALTER TABLE person ALTER COLUMN name DROP NOT NULL",
        "ALTER TABLE person ALTER COLUMN mood SET DEFAULT 'sad'",
        "ALTER TABLE person ADD COLUMN extra INTEGER",
        "COMMENT ON COLUMN person.name IS 'otherwise'",
        "DROP INDEX person_lower",
        "ALTER TABLE friend DROP CONSTRAINT friend_b",
    ):
        connection.exec_driver_sql(statement)
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    found = {
        change[0]
        for one in compare_metadata(context, metadata)
        for change in (one if isinstance(one, list) else [one])
    }
    assert found == {
        "modify_type",
        "modify_nullable",
        "modify_default",
        "modify_comment",
        "remove_column",
        "add_index",
        "add_fk",
    }


def test_tables_columns_types_and_labels_are_changed(connection):
    models().create_all(connection)
    connection.exec_driver_sql("INSERT INTO person (name) VALUES ('7')")
    op = Operations(MigrationContext.configure(connection))
    op.rename_table("person", "people")
    op.alter_column("people", "name", new_column_name="number")
    op.drop_column("people", "decade")
    op.drop_index("person_lower")
    op.drop_constraint("person_name_check", "people")
    op.alter_column(
        "people", "number", type_=sa.Integer(), postgresql_using="number::integer + 1", comment="how many"
    )
    op.execute("ALTER TYPE mood ADD VALUE 'calm'")
    op.alter_column("people", "id", server_default=None, existing_server_default=sa.Identity())
    connection.commit()
    assert connection.exec_driver_sql("SELECT number FROM people").scalar_one() == 8
    inspector = sa.inspect(connection)
    (number,) = (one for one in inspector.get_columns("people") if one["name"] == "number")
    assert (str(number["type"]), number["comment"]) == ("INTEGER", "how many")
    assert "identity" not in inspector.get_columns("people")[0]
    assert inspector.get_enums()[0]["labels"] == [*MOODS, "calm"]


def test_a_migration_that_fails_leaves_nothing(connection):
    context = MigrationContext.configure(connection)
    op = Operations(context)

    def migrate():
        with context.begin_transaction():
            op.create_table("half", sa.Column("a", sa.Integer))
            op.execute("CREATE TABLE half (b INTEGER)")

    with pytest.raises(sa.exc.ProgrammingError):
        migrate()
    assert context._in_connection_transaction() is False
    assert sa.inspect(connection).get_table_names() == []
