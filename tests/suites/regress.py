"""PostgreSQL's regression scripts, judged statement by statement beside PostgreSQL 15.

Each script runs on a database of its own, made of ``test_setup`` and of the scripts that it depends on by the
schedule; both servers get each statement at the same time, with the same settings. What psql does besides is
done as docs/suites.md says. A server never holds the runner: a statement has a limit, then it is cancelled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.suites.psql_scripts import Command, Script, Statement, split_arguments
from tests.suites.wire import Answer, Result, Wire

CATEGORIES = ("same", "rows", "missing", "code", "refused", "endless", "lost")
"""What becomes of a statement: the same; other rows, names or tags; an error of PostgreSQL's that is missing;
an error with another code; refused by HerdPy alone; not ended in time; the connection was lost."""
LIMIT_S = 30.0
"""How long a statement may last."""
_DEPENDS = re.compile(r"^# (\w+) depends on ([\w, ]+)$", re.MULTILINE)
_SERVER_FILE = re.compile(r"^\s*copy\b(.*?)\bfrom\s+'((?:[^']|'')+)'(.*)$", re.IGNORECASE | re.DOTALL)
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)
_COLUMN = re.compile(
    r"\s*(?:\w+\.)?(\w+|\"[^\"]+\")(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?\s*", re.IGNORECASE
)
_INNER = re.compile(r"'(?:[^']|'')*'|\([^()]*\)")


@dataclass
class Judged:
    """A statement and what became of it."""

    file: str
    line: int
    category: str
    text: str
    theirs: Answer
    ours: Answer

    def record(self) -> dict[str, object]:
        """What is kept of it: its answers only where they differ."""
        kept: dict[str, object] = {"line": self.line, "category": self.category, "text": self.text}
        if self.category != "same":
            kept |= {"theirs": _shown(self.theirs), "ours": _shown(self.ours)}
        return kept


def _shown(answer: Answer, most: int = 30) -> dict[str, object]:
    results = [{**asdict(one), "rows": one.rows[:most], "count": len(one.rows)} for one in answer.results]
    return {"results": results, "copied": answer.copied[:most], "seconds": round(answer.seconds, 3)}


def judge(statement: str, theirs: Answer, ours: Answer) -> str:
    """The category of a statement by what PostgreSQL and HerdPy answered."""
    if ours.ended != "done":
        return ours.ended
    if theirs.sqlstate and not ours.sqlstate:
        return "missing"
    if theirs.sqlstate != ours.sqlstate:
        return "code" if theirs.sqlstate else "refused"
    if theirs.sqlstate or _alike(statement, theirs, ours):
        return "same"
    return "rows"


def _alike(statement: str, theirs: Answer, ours: Answer) -> bool:
    if len(theirs.results) != len(ours.results):
        return False
    pairs = zip(theirs.results, ours.results, strict=True)
    ordered = is_ordered(statement)
    if not _same_rows(theirs.copied, ours.copied, ordered):
        return False
    return all(
        a.tag == b.tag
        and a.names == b.names
        and (_same_rows(a.rows, b.rows, ordered) or _same_but_for_ties(statement, a, b))
        for a, b in pairs
    )


def _same_rows(theirs: Sequence[object], ours: Sequence[object], ordered: bool) -> bool:
    return theirs == ours or (not ordered and Counter(theirs) == Counter(ours))


def _same_but_for_ties(statement: str, theirs: Result, ours: Result) -> bool:
    """Whether two orders of the same rows differ only among rows that are equal by the ORDER BY."""
    keys = _sort_keys(statement, theirs.names)
    if not keys or Counter(theirs.rows) != Counter(ours.rows):
        return False
    return [[row[key] for key in keys] for row in theirs.rows] == [
        [row[key] for key in keys] for row in ours.rows
    ]


def _sort_keys(statement: str, names: Sequence[str]) -> list[int]:
    """The places of the columns that ORDER BY names; none when it has anything but columns of the answer."""
    listed = _ORDERED.split(_outermost(statement))[-1]
    listed = re.split(r"\b(?:limit|offset|fetch|for)\b|;", listed, flags=re.IGNORECASE)[0]
    found = [_COLUMN.fullmatch(key) for key in listed.split(",")]
    words = [key[1].strip('"') if key[1][0] == '"' else key[1].lower() for key in found if key]
    if len(words) < len(found):
        return []
    places = [int(word) - 1 if word.isdigit() else _place(word, names) for word in words]
    return places if all(0 <= place < len(names) for place in places) else []


def _place(word: str, names: Sequence[str]) -> int:
    return names.index(word) if names.count(word) == 1 else -1


def is_ordered(statement: str) -> bool:
    """Whether a statement says in which order its rows come: ORDER BY outside of all parentheses."""
    return _ORDERED.search(_outermost(statement)) is not None


def _outermost(statement: str) -> str:
    """A statement without its texts and what stands in parentheses."""
    while (inner := _INNER.sub(" ", statement)) != statement:
        statement = inner
    return statement


@dataclass(frozen=True)
class Suite:
    """The scripts: where they are, in which order, and what each depends on."""

    folder: Path
    order: tuple[str, ...]
    depends: dict[str, tuple[str, ...]]

    @classmethod
    def read(cls, folder: Path) -> Suite:
        """Read the schedule; scripts that are not in it come last."""
        schedule = (folder / "parallel_schedule").read_text()
        named = re.findall(r"^test: (.+)$", schedule, re.MULTILINE)
        order = list(dict.fromkeys(name for line in named for name in line.split()))
        order += sorted(path.stem for path in (folder / "sql").glob("*.sql") if path.stem not in order)
        depends = {name: tuple(re.findall(r"\w+", rest)) for name, rest in _DEPENDS.findall(schedule)}
        return cls(folder, tuple(order), depends)

    def before(self, name: str) -> list[str]:
        """The scripts that are to run before one, but for test_setup."""
        needed = dict.fromkeys(
            one for direct in self.depends.get(name, ()) for one in (*self.before(direct), direct)
        )
        return list(needed)

    def text(self, name: str) -> str:
        """A script."""
        return (self.folder / "sql" / f"{name}.sql").read_text(encoding="utf-8", errors="replace")


@dataclass
class Side:
    """A server as a script sees it."""

    wire: Wire
    variables: dict[str, str] = field(default_factory=dict)
    last: Answer = field(default_factory=Answer)


class Play:
    """A script that is played to both servers."""

    def __init__(self, name: str, text: str, theirs: Side, ours: Side) -> None:
        self._name = name
        self._script = Script(text)
        self.theirs, self.ours = theirs, ours
        self._branches: list[tuple[bool, bool]] = []  # is it taken, was any taken
        self.judged: list[Judged] = []

    def run(self) -> list[Judged]:
        """Play it to its end."""
        while (piece := self._script.next()) is not None:
            if isinstance(piece, Command):
                if piece.name in ("q", "quit") and self._active:
                    break
                self._obey(piece)
            elif self._active:
                self._execute(piece)
        return self.judged

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.theirs, self.ours

    @property
    def _active(self) -> bool:
        return all(taken for taken, _ in self._branches)

    # Statements.

    def _execute(self, statement: Statement) -> None:
        texts = [statement.text(side.variables) for side in self._sides]
        if statement.sent_by == "gdesc":
            return
        self._judge(texts, statement.line)
        if statement.sent_by == "gset":
            self._set_of_row(statement.arguments)
        elif statement.sent_by == "gexec":
            cells = [cell for one in self.theirs.last.results for row in one.rows for cell in row if cell]
            for cell in cells:
                self._judge([cell, cell], statement.line)

    def _judge(self, texts: Sequence[str], line: int) -> None:
        theirs, ours = self._ask(texts)
        if theirs.ended == "done":
            category = judge(texts[0], theirs, ours)
            self.judged.append(Judged(self._name, line, category, texts[1], theirs, ours))
        self.theirs.last, self.ours.last = theirs, ours
        for side in self._sides:
            code = side.last.sqlstate
            side.variables |= {"ERROR": "true" if code else "false", "SQLSTATE": code or "00000"}
        self._script.backslashes = self.theirs.wire.parameter("standard_conforming_strings") == "off"
        self._load_server_file(texts[1], theirs, ours)

    def _ask(self, texts: Sequence[str]) -> tuple[Answer, Answer]:
        """Both answers to a statement; data of COPY is given to a server as it asks for it."""
        wires = [side.wire for side in self._sides]
        theirs, ours = (wire.send(text) for wire, text in zip(wires, texts, strict=True))
        wires[0].read(theirs)
        wires[1].read(ours)
        while theirs.asks or ours.asks:
            data = self._script.copy_data() if theirs.asks else None
            for wire, answer in zip(wires, (theirs, ours), strict=True):
                if answer.asks:
                    wire.give(answer, data)
                    wire.read(answer)
        return theirs, ours

    def _load_server_file(self, text: str, theirs: Answer, ours: Answer) -> None:
        """Give HerdPy what PostgreSQL read from a file of its machine: later statements need the rows."""
        found = _SERVER_FILE.match(text)
        if found is None or theirs.sqlstate or not ours.sqlstate:
            return
        path = Path(found[2].replace("''", "'"))
        answer = self.ours.wire.send(f"COPY {found[1]} FROM STDIN {found[3]}")
        self.ours.wire.read(answer)
        if answer.asks:
            self.ours.wire.give(answer, path.read_text(encoding="utf-8", errors="replace"))
            self.ours.wire.read(answer)

    def _set_of_row(self, prefix: str) -> None:
        for side in self._sides:
            result = side.last.results[-1] if side.last.results else Result()
            if len(result.rows) == 1:
                for name, value in zip(result.names, result.rows[0], strict=True):
                    side.variables.pop(prefix + name, None)
                    if value is not None:
                        side.variables[prefix + name] = value

    # Commands.

    def _obey(self, command: Command) -> None:
        if command.name in ("if", "elif", "else", "endif"):
            self._branch(command)
        elif self._active:
            carry_out = {
                "set": self._set,
                "unset": self._unset,
                "getenv": self._getenv,
                "c": self._connect,
                "connect": self._connect,
                "copy": self._copy,
            }.get(command.name)
            if carry_out is not None:
                carry_out(command.arguments)

    def _branch(self, command: Command) -> None:
        if command.name == "endif":
            if self._branches:
                self._branches.pop()
            return
        earlier = False
        if command.name in ("elif", "else"):
            _, earlier = self._branches.pop() if self._branches else (False, True)
        holds = command.name == "else" or self._holds(command.arguments)
        self._branches.append((holds and not earlier, earlier or holds))

    def _holds(self, arguments: str) -> bool:
        values = split_arguments(arguments, self.theirs.variables)
        return "".join(values).lower() in ("1", "t", "true", "on", "yes", "y")

    def _set(self, arguments: str) -> None:
        for side in self._sides:
            name, *values = split_arguments(arguments, side.variables) or [""]
            if name:
                side.variables[name] = "".join(values)

    def _unset(self, arguments: str) -> None:
        for side in self._sides:
            side.variables.pop(arguments, None)

    def _getenv(self, arguments: str) -> None:
        name, _, source = arguments.partition(" ")
        for side in self._sides:
            if source.strip() in side.variables:
                side.variables[name] = side.variables[source.strip()]

    def _connect(self, arguments: str) -> None:
        for side in self._sides:
            words = [
                word for word in split_arguments(arguments, side.variables) if not word.startswith("-reuse")
            ]
            names = zip(("dbname", "user"), words, strict=False)
            side.wire.connect(**{name: word.strip('"') for name, word in names if word != "-"})

    def _copy(self, arguments: str) -> None:
        """Send what psql's command sends, where it has data in the script or shows rows."""
        texts = [f"COPY {arguments}" for _ in self._sides]
        if re.search(r"\b(from|to)\s+p?std(in|out)\b", arguments, re.IGNORECASE):
            self._judge([re.sub(r"\bpstd", "std", text) for text in texts], 0)
