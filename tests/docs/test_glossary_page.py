"""docs/glossary.md: every term is used, and no function or class has a name that the glossary replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.structure import ROOTS
from tests.support.pages import PAGES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
REPLACED = re.compile(
    r"(?:^|_)(?:asks|bad_luck|conduct|crew|doors?|hands(?!_over)|hire|likeness|make_way|playing|quick|staff|stand|standing|told)"
    r"(?:_|$)"
)


def terms(page: str) -> list[list[str]]:
    """The terms of each table, without what stands in brackets behind them."""
    parts = page.partition("## Words that are replaced")[0].split("\n## ")[1:]
    return [
        [re.sub(r" \(.*\)", "", term) for term, _ in ROW.findall(part) if (term, _) != ("term", "meaning")]
        for part in parts
    ]


def sources() -> Iterator[Path]:
    """The modules of production code, without generated stubs."""
    for root, _ in ROOTS:
        yield from (path for path in root.rglob("*.py") if not path.stem.endswith(("_pb2", "_pb2_grpc")))


def names(source: str) -> set[str]:
    """The functions and classes that a module defines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)}


def replaced(found: set[str]) -> set[str]:
    """Those names that have a word that the glossary replaces."""
    return {
        name
        for name in found
        if name == "Body" or REPLACED.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    }


def test_each_term_is_there_once_and_in_order() -> None:
    tables = terms(PAGE.read_text("utf-8"))
    for table in tables:
        assert table == sorted(table, key=str.lower)
    everything = [term for table in tables for term in table]
    assert 60 <= len(everything) <= 115
    assert len(set(everything)) == len(everything)


def test_each_term_is_used() -> None:
    pages = [path for path in PAGES if path != PAGE]
    text = "\n".join(path.read_text("utf-8") for path in (*pages, *sources())).lower()
    used = re.sub(r"[\s_-]+", " ", text)
    unused = [term for table in terms(PAGE.read_text("utf-8")) for term in table if _spaced(term) not in used]
    assert unused == []


def _spaced(term: str) -> str:
    return re.sub(r"[\s_-]+", " ", term.lower())


def test_no_name_has_a_word_that_is_replaced() -> None:
    found = replaced({name for path in sources() for name in names(path.read_text("utf-8"))})
    assert found == set(), "docs/glossary.md has the word for it"


def test_names_and_terms_are_seen() -> None:
    assert terms("# G\n## A\n| term | meaning |\n|---|---|\n| LSN (of x) | y |\n") == [["LSN"]]
    assert names("class HireHands:\n    async def go(self): pass\n") == {"HireHands", "go"}
    found = {
        "HireHands",
        "hands_over_to",
        "hand_over",
        "_was_told",
        "Body",
        "encode_body",
        "standard",
        "_quick",
    }
    assert replaced(found) == {"HireHands", "_was_told", "Body", "_quick"}
