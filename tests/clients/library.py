"""The tables that PostgreSQL's clients are shown: columns of every type, keys, checks, views, comments."""

from __future__ import annotations

DEFINITIONS = (
    "CREATE TYPE lib_state AS ENUM ('torn', 'fine', 'new')",
    "CREATE SEQUENCE lib_number START 5 INCREMENT 2",
    "CREATE TABLE lib_author (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "name varchar(40) NOT NULL UNIQUE, born date)",
    "CREATE TABLE lib_book (id int PRIMARY KEY, title text NOT NULL, "
    "author bigint REFERENCES lib_author ON DELETE CASCADE, price numeric(8,2) DEFAULT 1.50 "
    "CHECK (price >= 0), state lib_state DEFAULT 'fine', tags text[], counts int[], meta jsonb DEFAULT '{}', "
    "lent interval, bought timestamptz, shelf uuid, twice numeric GENERATED ALWAYS AS (price * 2) STORED)",
    "CREATE INDEX lib_book_lower ON lib_book (lower(title), price DESC)",
    "CREATE UNIQUE INDEX lib_book_dear ON lib_book (title) WHERE price > 10",
    "CREATE TABLE lib_loan (number serial PRIMARY KEY, book int REFERENCES lib_book, days smallint)",
    "CREATE VIEW lib_cheap AS SELECT id, title, price, state FROM lib_book WHERE price < 5",
    "CREATE SCHEMA lib_store",
    "CREATE TABLE lib_store.crate (id int PRIMARY KEY, label text)",
    "CREATE INDEX crate_label ON lib_store.crate (label)",
    "COMMENT ON TABLE lib_book IS 'what is lent'",
    "COMMENT ON COLUMN lib_book.title IS 'as on the cover'",
    "COMMENT ON INDEX lib_book_lower IS 'by title'",
    "INSERT INTO lib_author (name, born) VALUES ('ann', '1970-01-02'), ('bob', NULL)",
    "INSERT INTO lib_book (id, author, title, tags, counts, meta, lent, shelf) VALUES (1, 1, 'first', "
    "'{a,\"b c\",NULL}', '{1,2,NULL}', '{\"a\": [1, null]}', '1 mon 2 days 03:00:00.5', "
    "'12345678-1234-5678-1234-567812345678')",
)
"""What PostgreSQL has as well."""

VECTORS = (
    "ALTER TABLE lib_book ADD COLUMN place vector(3)",
    "UPDATE lib_book SET place = '[1,2.5,-3]' WHERE id = 1",
)
"""What only HerdPy has without an extension."""
