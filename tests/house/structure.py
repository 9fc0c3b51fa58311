"""How the packages are built: what the source says, without importing it.

``read`` parses every module of the component roots once; the functions below it count over what it found.
Generated stubs are left out.

    python -m tests.house.structure [--lists]

prints the figures, and with ``--lists`` what each of them counts.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The component roots, each with the directory that its imports start from.
ROOTS = (
    (ROOT / "herdpy", ROOT),
    (ROOT / "server" / "herdpy_server", ROOT / "server"),
    (ROOT / "sql" / "herdpy_sql", ROOT / "sql"),
    (ROOT / "spark_jobs" / "herdpy_spark", ROOT / "spark_jobs"),
    (ROOT / "orchestration" / "herdpy_airflow", ROOT / "orchestration"),
    (ROOT / "orchestration" / "dbt_herdpy" / "dbt", ROOT / "orchestration" / "dbt_herdpy"),
)
#: The most that a function may have.
LINES_OF_A_FUNCTION = 70
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEAVES = frozenset({ast.Constant, ast.Load, ast.Store, ast.Del, ast.Pass, ast.alias})

#: The public methods of a named tuple, and its field names, begin with an underscore.
_NAMED_TUPLES = frozenset({"_asdict", "_fields", "_make", "_replace"})


@dataclass(slots=True)
class Module:
    """What the figures need of one module."""

    name: str
    package: str
    #: (the module that an import statement names, the name that it takes from there or "", the name here)
    imports: list[tuple[str, str, str]] = field(default_factory=list)
    #: The classes, each with the names of its bases.
    classes: dict[str, list[str]] = field(default_factory=dict)
    #: The functions, each with its first line and its lines.
    functions: list[tuple[str, int, int]] = field(default_factory=list)
    #: The private names that it defines, and those that it takes from others than ``self`` and ``cls``.
    defined: set[str] = field(default_factory=set)
    taken: list[tuple[str, int]] = field(default_factory=list)


@contextmanager
def _without_collection() -> Iterator[None]:
    # Syntax trees are many small objects without cycles: the collector would look at each of them many times.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read() -> dict[str, Module]:
    """Every module of ours by its dotted name."""
    found: dict[str, Module] = {}
    with _without_collection():
        for directory, start in ROOTS:
            for path in sorted(directory.rglob("*.py")):
                if "_pb2" not in path.name:
                    module = _module(path, start)
                    found[module.name] = module
    return found


def _module(path: Path, start: Path) -> Module:
    dotted = ".".join(path.relative_to(start).with_suffix("").parts)
    name = dotted.removesuffix(".__init__")
    module = Module(name, name if path.stem == "__init__" else name.rpartition(".")[0])
    stack: list[ast.AST] = [ast.parse(path.read_bytes(), str(path))]
    while stack:
        node = stack.pop()
        _note(node, module)
        for key in node._fields:
            child = getattr(node, key, None)
            if isinstance(child, list):
                stack.extend(
                    one for one in child if isinstance(one, ast.AST) and one.__class__ not in _LEAVES
                )
            elif isinstance(child, ast.AST) and child.__class__ not in _LEAVES:
                stack.append(child)
    return module


def _note(node: ast.AST, module: Module) -> None:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            module.defined.add(node.id)
    elif isinstance(node, ast.Attribute):
        _note_attribute(node, module)
    elif isinstance(node, _FUNCTIONS):
        module.defined.add(node.name)
        module.functions.append((node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1))
    elif isinstance(node, ast.ClassDef):
        module.defined.add(node.name)
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
        module.classes[node.name] = [
            base.id if isinstance(base, ast.Name) else base.attr
            for base in bases
            if isinstance(base, (ast.Name, ast.Attribute))
        ]
    elif isinstance(node, ast.Import):
        module.imports.extend((one.name, "", one.asname or one.name) for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = module.package.split(".")
            base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
        module.imports.extend((base, one.name, one.asname or one.name) for one in node.names)
        module.taken.extend((one.name, node.lineno) for one in node.names if _is_private(one.name))


def _note_attribute(node: ast.Attribute, module: Module) -> None:
    if isinstance(node.ctx, ast.Store):
        module.defined.add(node.attr)
    elif _is_private(node.attr) and not (
        isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    ):
        module.taken.append((node.attr, node.lineno))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _NAMED_TUPLES


def repeated_classes(modules: dict[str, Module]) -> list[str]:
    """The public class names that more than one module defines."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            if not name.startswith("_"):
                places[name].append(module.name)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if len(where) > 1]


def long_functions(modules: dict[str, Module], lines: int) -> list[str]:
    """The functions of more than so many lines."""
    return [
        f"{module.name}:{first}: {name} has {count} lines"
        for module in modules.values()
        for name, first, count in module.functions
        if count > lines
    ]


def foreign_privates(modules: dict[str, Module]) -> list[str]:
    """The uses of a private name that another file of ours defines and this one does not."""
    ours = set().union(*(module.defined for module in modules.values()))
    return [
        f"{module.name}:{line}: {name}"
        for module in modules.values()
        for name, line in module.taken
        if name in ours and name not in module.defined
    ]


def class_chains(modules: dict[str, Module]) -> dict[str, int]:
    """How many classes of ours stand in the longest chain of bases of each class, itself included."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            places[name].append(module.name)
    known: dict[tuple[str, str], int] = {}

    def base_of(module: Module, name: str) -> tuple[str, str] | None:
        if name in module.classes:
            return module.name, name
        source, original = next(((m, o) for m, o, here in module.imports if here == name and o), ("", name))
        where = [
            one for one in places.get(original, ()) if not source or (one + ".").startswith(source + ".")
        ]
        return (where[0], original) if where else None

    def chain(key: tuple[str, str]) -> int:
        if key not in known:
            known[key] = 1  # a class that bears its base's name ends here
            module = modules[key[0]]
            bases = [base_of(module, base) for base in module.classes[key[1]]]
            known[key] = 1 + max((chain(base) for base in bases if base and base != key), default=0)
        return known[key]

    return {f"{m.name}.{name}": chain((m.name, name)) for m in modules.values() for name in m.classes}


def import_knots(modules: dict[str, Module]) -> list[list[str]]:
    """The sets of modules that import each other in circles; imports for types and in functions count."""
    parts = _strong_parts(_import_graph(modules))
    return sorted((sorted(part) for part in parts if len(part) > 1), key=len, reverse=True)


def _import_graph(modules: dict[str, Module]) -> dict[str, list[str]]:
    graph: dict[str, list[str]] = {}
    for module in modules.values():
        targets = {
            next((one for one in (f"{source}.{name}", source) if one in modules), "")
            for source, name, _here in module.imports
        }
        graph[module.name] = sorted(targets - {"", module.name})
    return graph


def _strong_parts(graph: dict[str, list[str]]) -> list[list[str]]:
    """Tarjan's algorithm, with its own stack: chains of imports may be longer than Python's."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_nodes: dict[str, None] = {}
    parts: list[list[str]] = []
    for start, first in graph.items():
        work: list[tuple[str, Iterator[str]]] = [] if start in index else [(start, iter(first))]
        while work:
            node, targets = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                open_nodes[node] = None
            for target in targets:
                if target not in index:
                    work.append((target, iter(graph[target])))
                    break
                if target in open_nodes:
                    low[node] = min(low[node], low[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    parts.append(_closed(open_nodes, node))
    return parts


def _closed(open_nodes: dict[str, None], root: str) -> list[str]:
    part = []
    while root in open_nodes:
        part.append(open_nodes.popitem()[0])
    return part


def figures() -> dict[str, list[str]]:
    """What each figure counts, by the figure's name."""
    modules = read()
    chains = class_chains(modules)
    longest = max(chains, key=lambda name: chains[name])
    knots = import_knots(modules)
    return {
        "class names in several modules": repeated_classes(modules),
        "modules in import knots": [f"{name} (of {len(knot)})" for knot in knots for name in knot],
        "classes in the longest chain": [f"the chain of {longest}"] * chains[longest],
        "private names of other files": foreign_privates(modules),
        "functions over 70 lines": long_functions(modules, LINES_OF_A_FUNCTION),
    }


def sizes() -> dict[str, int]:
    """How much there is: files, lines, lines of the file in the middle, and files that name one SQL type."""
    paths = [path for root, _ in ROOTS for path in root.rglob("*.py") if "_pb2" not in path.name]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    lines = sorted(text.count("\n") for text in texts)
    naming = re.compile(r"\b(Base|B|t|types|Kind)\.UUID\b")
    return {
        "files": len(lines),
        "lines": sum(lines),
        "lines of the median file": lines[len(lines) // 2],
        "files under 50 lines": sum(one < 50 for one in lines),
        "files that name the type UUID": sum(bool(naming.search(text)) for text in texts),
    }


if __name__ == "__main__":
    for name, size in sizes().items():
        print(f"{name:34}{size:>6}")
    for figure, cases in figures().items():
        print(f"{figure:34}{len(cases):>6}")
        if "--lists" in sys.argv[1:]:
            print(*(f"    {case}" for case in cases), sep="\n")
