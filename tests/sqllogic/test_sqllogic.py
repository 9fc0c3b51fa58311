"""sqllogictest's seven million records: a sample with every commit, all of them in soak; no answer is wrong.

``HERDPY_SEED`` chooses the sample. What was skipped, and why, is printed by file and in all (see ``-s``).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import herdpy
from herdpy.testing.java import sqllogictest_jar

sys.path.insert(0, str(Path(__file__).parent))

from slt_records import Record, agrees, digest, records, result
from slt_run import Corpus, Judge, Tally, run, sampled

SEED = int(os.environ.get("HERDPY_SEED", "1"))
# Of a family: how many files, and about how many queries of each.
SAMPLE = {
    "select": (4, 40),
    "evidence": (12, 1000),
    "random/aggregates": (2, 100),
    "random/expr": (2, 100),
    "random/groupby": (2, 100),
    "random/select": (2, 100),
    "index/between": (1, 40),
    "index/commute": (1, 40),
    "index/delete": (1, 40),
    "index/in": (1, 40),
    "index/orderby": (1, 40),
    "index/orderby_nosort": (1, 40),
    "index/random": (1, 40),
    "index/view": (1, 40),
}
LONG = 4_000_000  # bytes: files of that size hold thousands of INSERTs, and are for soak
STATEMENTS = 2000  # a sample ends there: some files change their tables by thousands of statements
WORKERS = 16  # soak's parts, so that several processes can share them


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(sqllogictest_jar())


@pytest.fixture
def asked(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


def beginning(text: str) -> str:
    """A file up to its last record before STATEMENTS statements: what comes later changes nothing in it."""
    parts = text.split("\n\nstatement ", STATEMENTS + 1)
    return "\n\nstatement ".join(parts[: STATEMENTS + 1])


def judged(names: list[str], corpus: Corpus, asked: Any, path: Path, queries: int | None) -> Tally:
    """Run files, of each about so many of its queries; all where no number is given."""
    total = Tally("all")
    for n, name in enumerate(names):
        text = corpus.text(name) if queries is None else beginning(corpus.text(name))
        rate = 1.0 if queries is None else queries / max(1, text.count("\nquery "))
        with herdpy.connect(path / str(n), autocommit=True) as connection:
            wanted = sampled(rate, random.Random(f"{SEED} {name}"))
            tally = run(name, text, connection, Judge(asked), wanted=wanted)
        print(tally)
        total.add(tally)
    print(total)
    if total.wrong:
        pytest.fail(f"HERDPY_SEED={SEED}: {len(total.wrong)} wrong\n" + "\n".join(total.wrong[:20]), False)
    return total


@pytest.mark.parametrize("family", SAMPLE)
def test_a_sample_of_a_family(family: str, corpus: Corpus, asked: Any, tmp_path: Path) -> None:
    count, queries = SAMPLE[family]
    names = [n for n in corpus.families()[family] if corpus.sizes[n] < LONG]
    picked = random.Random(f"{SEED} {family}").sample(names, min(count, len(names)))
    assert judged(picked, corpus, asked, tmp_path, queries).passed > 20 * len(picked)


def test_every_family_is_sampled(corpus: Corpus) -> None:
    assert set(corpus.families()) == set(SAMPLE)
    assert len(corpus.names) == 622


@pytest.mark.soak
@pytest.mark.parametrize("part", range(WORKERS))
def test_all_files(part: int, corpus: Corpus, asked: Any, tmp_path: Path) -> None:
    judged(corpus.names[part::WORKERS], corpus, asked, tmp_path, None)


EXAMPLE = """
onlyif mysql # another's words
query I nosort
SELECT 7 DIV 2
----
3

skipif mysql
query IT rowsort label-1
SELECT b, a
FROM t
----
1
(empty)
NULL
x@y

statement error
SELECT

query R nosort
SELECT 1.0
----
3 values hashing to {digest}
"""


def test_records_are_read() -> None:
    first, second, third, last = records(EXAMPLE)
    assert not first.applies("postgresql")
    assert second.applies("postgresql")
    assert (second.sql, second.types, second.sort, second.label) == (
        "SELECT b, a\nFROM t",
        "IT",
        "rowsort",
        "label-1",
    )
    assert agrees(second, result(second, [(None, "x\ny"), (True, "")]))
    assert not agrees(second, result(second, [(None, "x\ny"), (2, "")]))
    assert third.fails
    assert last.types == "R"


def test_a_hashed_result_is_compared() -> None:
    values = ["1.500", "NULL", "-2.000"]
    record = Record(1, "query", types="R", expected=[f"3 values hashing to {digest(values)}"])
    assert agrees(record, result(record, [(1.5,), (None,), (-2,)]))
    assert not agrees(record, result(record, [(1.5,), (None,), (-2.01,)]))
    assert not agrees(record, result(record, [(1.5,), (None,)]))
    record.sort = "valuesort"
    assert not agrees(record, result(record, [(1.5,), (None,), (-2,)]))


MADE_UP = """
statement ok
CREATE TABLE t (a INTEGER)

statement ok
INSERT INTO t VALUES (1)

query I nosort
SELECT a + 1 FROM t
----
3

query I nosort
SELECT a / 0 FROM t
----
NULL

query I nosort
SELECT a FROM u
----
1

statement error
SELECT 1

statement ok
DROP TABLE u

query I nosort
SELECT 7 / 2
----
3.5
"""


def test_a_wrong_answer_is_told(asked: Any, tmp_path: Path) -> None:
    with herdpy.connect(tmp_path, autocommit=True) as connection:
        judge = Judge(asked)
        judge.ran("CREATE TABLE u (a INTEGER)")
        tally = run("made up", MADE_UP, connection, judge)
    assert tally.passed == 2
    assert [line.split(": ")[0] for line in tally.wrong] == [f"made up:{n}" for n in (18, 23, 26)]
    assert {reason.name: count for reason, count in tally.skipped.items()} == {"REFUSED": 1, "ANSWERED": 2}
