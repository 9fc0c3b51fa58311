"""The hot modules keep to what mypyc compiles as Python means it: docs/compiled.md has the rules.

What mypyc itself refuses, `python tools/compile_modules.py --check` tells; these it does not see.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TUPLE = "NamedTuple"
_CLASS = re.compile(r"^ *class (\w+)\(([^)]*)\)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_NO_SUBCLASSES_OF_OURS = ("Protocol", _TUPLE, "Exception", "IntEnum", "StrEnum", "Enum")


@cache
def _compiled() -> dict[str, ast.Module]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = tomllib.load(file)["tool"]["herdpy"]["compiled"]
    return {path: ast.parse((ROOT / path).read_text()) for path in listed}


def _classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _names(nodes: list[ast.expr]) -> list[str]:
    return [ast.unparse(node) for node in nodes]


def _typing_only(tree: ast.Module) -> set[str]:
    """Names that are imported for types alone."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for one in ast.walk(node):
                if isinstance(one, ast.Import | ast.ImportFrom):
                    found |= {(alias.asname or alias.name).split(".")[0] for alias in one.names}
    return found


def _makes_fields(node: ast.ClassDef) -> bool:
    is_dataclass = any("dataclass" in name for name in _names(node.decorator_list))
    return is_dataclass or _TUPLE in _names(node.bases)


def test_types_of_fields_are_there_when_a_module_runs() -> None:
    wrong = [
        f"{path}: {node.name}.{ast.unparse(field.target)} is of {name.id}, which is imported for types alone"
        for path, tree in _compiled().items()
        for node in _classes(tree)
        if _makes_fields(node)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for name in ast.walk(field.annotation)
        if isinstance(name, ast.Name) and name.id in _typing_only(tree)
    ]
    assert not wrong, "\n".join(wrong)


def test_dataclasses_have_no_class_variables() -> None:
    wrong = [
        f"{path}: {node.name}"
        for path, tree in _compiled().items()
        for node in _classes(tree)
        if _makes_fields(node) and "ClassVar" in ast.unparse(node)
    ]
    assert not wrong, wrong


def test_no_attribute_is_a_word_of_c() -> None:
    wrong = [
        f"{path}:{node.lineno}"
        for path, tree in _compiled().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "_thread"
    ]
    assert not wrong, wrong  # mypyc puts a line before it, and gcc takes that for a storage class


def _of_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def test_objects_that_are_referred_to_weakly_are_no_native_ones() -> None:
    wrong = [
        f"{path}: {node.name}"
        for path, tree in _compiled().items()
        for node in _classes(tree)
        if re.search(r"\b(finalize|ref|WeakMethod)\(self\b", ast.unparse(node))
        and not any("native_class=False" in name for name in _names(node.decorator_list))
    ]
    assert not wrong, wrong


def test_errors_of_several_types_have_several_names() -> None:
    wrong = []
    for path, tree in _compiled().items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            types: dict[str, set[str]] = {}
            for node in _of_function(function):
                if isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
                    types.setdefault(node.name, set()).add(ast.unparse(node.type))
            wrong += [f"{path}: {function.name}, {name}" for name, of in types.items() if len(of) > 1]
    assert not wrong, wrong  # a compiled variable has one type, that of its first assignment


def test_nothing_is_awaited_in_a_handler() -> None:
    wrong = [
        f"{path}:{node.lineno}"
        for path, tree in _compiled().items()
        for handler in ast.walk(tree)
        if isinstance(handler, ast.ExceptHandler)
        for statement in handler.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom)
    ]
    assert not wrong, wrong  # a compiled coroutine leaves its exception to whoever runs meanwhile


def test_no_parameter_of_a_coroutine_is_deleted() -> None:
    wrong = []
    for path, tree in _compiled().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.AsyncFunctionDef):
                given = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
                wrong += [
                    f"{path}:{node.lineno}"
                    for node in _of_function(function)
                    if isinstance(node, ast.Delete) and given.intersection(_names(node.targets))
                ]
    assert not wrong, wrong  # it is an attribute of an object there, which is there for good


def test_classes_with_subclasses_elsewhere_say_so() -> None:
    closed = set()
    for tree in _compiled().values():
        for node in _classes(tree):
            outside = any(base.split("[")[0] in _NO_SUBCLASSES_OF_OURS for base in _names(node.bases))
            says = any("allow_interpreted_subclasses=True" in name for name in _names(node.decorator_list))
            if not outside and not says:
                closed.add(node.name)
    wrong = []
    for top in ("herdpy", "server", "sql", "spark_jobs", "orchestration", "tests"):
        for file in (ROOT / top).rglob("*.py"):
            path = str(file.relative_to(ROOT))
            if path in _compiled():
                continue
            for name, bases in _CLASS.findall(file.read_text()):
                wrong += [f"{path}: {name}({base})" for base in closed & set(_WORD.findall(bases))]
    assert not wrong, "\n".join(wrong)
