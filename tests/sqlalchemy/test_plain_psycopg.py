"""SQLAlchemy's own `postgresql+psycopg` on a HerdPy server: the ORM, RETURNING, ON CONFLICT, reflection."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from tests.support.server_process import RunningServer


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    __table_args__ = (
        sa.UniqueConstraint("name", name="author_name_key"),
        sa.Index("author_lower", sa.text("lower(name)")),
        {"comment": "who writes"},
    )
    id: Mapped[int] = mapped_column(sa.Identity(always=True), primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(40), comment="as printed")
    books: Mapped[list[Book]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    __table_args__ = (sa.CheckConstraint("price >= 0", name="book_price_check"),)
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("author.id", ondelete="CASCADE"), index=True)
    title: Mapped[str]
    price: Mapped[Decimal] = mapped_column(sa.Numeric(8, 2), server_default="1.50")
    printed: Mapped[dt.datetime | None] = mapped_column(sa.DateTime(timezone=True))
    facts: Mapped[dict[str, object] | None] = mapped_column(JSONB)
    words: Mapped[list[str] | None] = mapped_column(ARRAY(sa.Text))
    author: Mapped[Author] = relationship(back_populates="books")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    engine = sa.create_engine(f"postgresql+psycopg://ann@127.0.0.1:{running.port}/herdpy")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()
    running.close()


@pytest.fixture
def session(engine):
    with Session(engine) as session:
        yield session
        session.rollback()


def test_the_unit_of_work(session):
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    ann = Author(name="Ann")
    ann.books = [
        Book(title="First", printed=moment, facts={"pages": [1, 2]}, words=["a", "b"]),
        Book(title="Second", price=Decimal("9.99")),
    ]
    session.add(ann)
    session.flush()
    session.expire_all()
    first, second = session.scalars(sa.select(Book).order_by(Book.title)).all()
    assert (first.author.name, first.price, first.printed) == ("Ann", Decimal("1.50"), moment)
    assert (first.facts, first.words, second.facts) == ({"pages": [1, 2]}, ["a", "b"], None)
    total = session.scalar(sa.select(sa.func.sum(Book.price)).join(Author).where(Author.name == "Ann"))
    assert total == Decimal("11.49")
    session.delete(ann)
    session.flush()
    assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 0


def test_many_rows_come_back_in_order(session):
    names = [f"author {n}" for n in range(300)]
    made = session.scalars(
        sa.insert(Author).returning(Author, sort_by_parameter_order=True), [{"name": n} for n in names]
    )
    assert [author.name for author in made] == names


def test_on_conflict_and_savepoints(session):
    session.execute(insert(Author).values(name="Bob"))
    again = insert(Author).values(name="Bob")
    changed = again.on_conflict_do_update(index_elements=["name"], set_={"name": again.excluded.name + "by"})
    assert session.scalar(changed.returning(Author.name)) == "Bobby"
    with pytest.raises(sa.exc.IntegrityError), session.begin_nested():
        session.execute(sa.insert(Book).values(author_id=-1, title="nobody's"))
    assert session.scalar(sa.select(Author.name)) == "Bobby"


def test_reflection(engine):
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["author", "book"]
    assert inspector.get_table_comment("author") == {"text": "who writes"}
    columns = {column["name"]: column for column in inspector.get_columns("author")}
    assert columns["id"]["identity"]["always"] is True
    assert (columns["name"]["comment"], columns["name"]["type"].length) == ("as printed", 40)
    assert inspector.get_pk_constraint("book")["constrained_columns"] == ["id"]
    (key,) = inspector.get_foreign_keys("book")
    assert (key["referred_table"], key["options"]) == ("author", {"ondelete": "CASCADE"})
    assert [one["name"] for one in inspector.get_unique_constraints("author")] == ["author_name_key"]
    assert {one["name"] for one in inspector.get_indexes("author")} >= {"author_lower"}
    assert [one["sqltext"] for one in inspector.get_check_constraints("book")] == ["price >= 0::numeric"]
    reflected = sa.Table("book", sa.MetaData(), autoload_with=engine)
    assert isinstance(reflected.c.facts.type, JSONB)
    assert isinstance(reflected.c.words.type, ARRAY)
    assert isinstance(reflected.c.id.type, sa.UUID)
