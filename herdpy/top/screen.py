"""The terminal of ``herdpy top``: panes that are filled from sample to sample, and keys.

Above ``monitor`` and ``view``. Data passes so: a task samples, and hands each sample to
:meth:`TopScreen.show`, which puts it on the screen; keys change how the newest sample is shown, or act on the
session under the cursor. Everything that came from a server is plain text to Textual, never markup.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane, Tree

from herdpy.top import view
from herdpy.top.monitor import LostServerError, Monitor, ServerRefusedError
from herdpy.top.sample import Rates, ServerSample, rates
from herdpy.top.view import Pane
from herdpy.wait_tree import WaitLine

_RETRY_S = 1.0
_ACTIONS = {"cancel": "pg_cancel_backend", "terminate": "pg_terminate_backend"}


class PaneTable(DataTable[Text]):
    """A pane, kept at its cursor from one sample to the next.

    Attributes:
        pane: what it shows.
        sorted_by: a column, and whether the largest comes first.
    """

    def __init__(self, pane: Pane) -> None:
        super().__init__(id=pane.part, cursor_type="row", zebra_stripes=True)
        self.pane = pane
        self.sorted_by = pane.sorted_by
        self.rows_by_key: dict[str, dict[str, Any]] = {}

    @property
    def current(self) -> dict[str, Any] | None:
        """The row under the cursor."""
        if not self.row_count:
            return None
        key = self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value
        return self.rows_by_key.get(key or "")

    def fill(self, rows: list[dict[str, Any]], having: str) -> None:
        """Show these rows; the cursor stays at its row, or else in its place."""
        at, offset = self.cursor_row, self.scroll_offset
        row_key = (
            self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value if self.row_count else None
        )
        lines = view.lines(self.pane, rows, sorted_by=self.sorted_by, having=having)
        self.clear(columns=True)
        column, descending = self.sorted_by
        for number, one in enumerate(self.pane.columns):
            mark = ("▼" if descending else "▲") if number == column else ""
            self.add_column(Text(f"{one.title} {mark}".rstrip()))
        self.rows_by_key = {line.key: line.row for line in lines}
        seen: set[str] = set()
        for number, line in enumerate(lines):
            if line.key in seen:
                continue
            seen.add(line.key)
            if line.key == row_key:
                at = number
            cells = zip(line.cells, self.pane.columns, strict=True)
            self.add_row(
                *(Text(text, justify="right" if one.is_number else "left") for text, one in cells),
                key=line.key,
            )
        self.move_cursor(row=at, animate=False)
        self.scroll_to(offset.x, offset.y, animate=False)

    def turn(self, *, reverse: bool) -> None:
        """Sort by the next column, or the other way round."""
        column, descending = self.sorted_by
        if reverse:
            self.sorted_by = column, not descending
        else:
            column = (column + 1) % len(self.pane.columns)
            self.sorted_by = column, self.pane.columns[column].is_number


class Question(ModalScreen[bool]):
    """A question whose answer is y or n; anything else leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(Text(self._text))
            yield Static(Text("y: yes   n: no", style="bold"))

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


class FullText(ModalScreen[None]):
    """A row with all of its values."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "app.pop_screen", "Close")]

    def __init__(self, row: dict[str, Any]) -> None:
        super().__init__()
        self._row = row

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            for name, value in self._row.items():
                text = "-" if value is None else view.printable(str(value), 10_000)
                yield Static(Text.assemble((f"{name.replace('_', ' ')}: ", "bold"), text))


class TopScreen(App[None]):
    """Servers in a terminal.

    Attributes:
        sample: the newest one; None before the first.
        is_paused: samples are not taken.
    """

    TITLE = "herdpy top"
    CSS = """
    #head { height: 2; padding: 0 1; background: $panel; }
    #problem { height: auto; max-height: 3; padding: 0 1; background: $error; color: $text; display: none; }
    #filter { display: none; height: 3; }
    .note { height: auto; padding: 0 1; color: $text-muted; }
    DataTable { height: auto; max-height: 1fr; }
    TabPane { padding: 0; }
    #waits { height: 1fr; }
    Question, FullText { align: center middle; }
    #box { width: 80%; height: auto; max-height: 90%; padding: 1 2; border: thick $primary;
           background: $surface; overflow-y: auto; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('tab-sessions')", "Sessions", show=False),
        Binding("2", "tab('tab-waits')", "Waits", show=False),
        Binding("3", "tab('tab-statements')", "Statements", show=False),
        Binding("4", "tab('tab-cluster')", "Cluster", show=False),
        Binding("c", "act('cancel')", "Cancel"),
        Binding("t", "act('terminate')", "Terminate"),
        Binding("s", "sort(False)", "Sort"),
        Binding("r", "sort(True)", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("escape", "clear_filter", "All", show=False),
        Binding("p", "pause", "Pause"),
        Binding("n", "next_server", "Next server"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, monitor: Monitor, interval_s: float) -> None:
        super().__init__()
        self.sample: ServerSample | None = None
        self.is_paused = False
        self._monitor = monitor
        self._interval_s = interval_s
        self._rates = Rates()
        self._having = ""
        self._wake = asyncio.Event()

    @property
    def _base(self) -> Screen[Any]:
        """The screen with the panes, also while a question is above it."""
        return self.screen_stack[0]

    def compose(self) -> ComposeResult:
        yield Static(Text("connecting ..."), id="head")
        yield Static("", id="problem")
        with TabbedContent(initial="tab-sessions"):
            with TabPane("1 Sessions", id="tab-sessions"):
                yield from self._pane(view.SESSIONS)
            with TabPane("2 Waits", id="tab-waits"):
                yield Tree(Text("who waits for whom"), id="waits")
            with TabPane("3 Statements", id="tab-statements"):
                yield from self._pane(view.STATEMENTS)
            with TabPane("4 Cluster", id="tab-cluster"):
                for pane in (view.TABLESPACES, view.REPLICAS, view.LOGS):
                    yield Static(Text(pane.title, style="bold"), classes="note")
                    yield from self._pane(pane)
        yield Input(placeholder="only rows with this text", id="filter")
        yield Footer()

    def _pane(self, pane: Pane) -> ComposeResult:
        yield Static("", id=f"note-{pane.part}", classes="note")
        yield PaneTable(pane)

    def on_mount(self) -> None:
        """Begin to sample."""
        self._base.query_one("#sessions", PaneTable).focus()
        self.run_worker(self._watch(), exclusive=True)

    async def on_unmount(self) -> None:
        """Leave the server."""
        await self._monitor.close()

    async def _watch(self) -> None:
        while True:
            pause_s = self._interval_s
            if not self.is_paused:
                problem, sample = "", None
                try:
                    sample = await self._monitor.sample()
                except (LostServerError, ServerRefusedError) as error:
                    problem = f"{error}; the next host is tried"
                    pause_s = min(_RETRY_S, pause_s)
                if not self.screen_stack or not self._base.query("#problem"):
                    return  # the panes are being taken down: the application ends
                if sample is None:
                    self._say_problem(problem)
                elif not self.is_paused:  # it may have become so meanwhile
                    self.show(sample)
            self._wake.clear()
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def show(self, sample: ServerSample) -> None:
        """Put a sample on the screen."""
        self._rates = rates(self.sample, sample)
        self.sample = sample
        self._say_problem("")
        self._draw()

    def _draw(self) -> None:
        sample = self.sample
        if sample is None:
            return
        paused = " · paused" if self.is_paused else ""
        having = f" · only {self._having!r}" if self._having else ""
        head = view.head_line(sample, self._rates)
        self._base.query_one("#head", Static).update(Text(head + paused + view.printable(having)))
        for table in self._base.query(PaneTable):
            part = table.pane.part
            table.fill(sample.parts[part], self._having)
            note = self._base.query_one(f"#note-{part}", Static)
            note.update(Text(view.printable(sample.notes.get(part, ""))))
            note.display = part in sample.notes
        self._draw_waits(view.waits(sample))

    def _draw_waits(self, lines: list[tuple[WaitLine, str]]) -> None:
        tree: Tree[int] = self._base.query_one("#waits", Tree)
        tree.clear()
        tree.root.set_label(Text("who waits for whom" if lines else "nobody waits"))
        above = [tree.root]
        for line, text in lines:
            del above[line.depth + 1 :]
            above.append(above[-1].add(Text(text), data=line.pid, expand=True))
        tree.root.expand()

    def _say_problem(self, text: str) -> None:
        problem = self._base.query_one("#problem", Static)
        problem.update(Text(view.printable(text)))
        problem.display = bool(text)

    # Keys.

    def action_tab(self, name: str) -> None:
        """Show a tab, with the keys in its table."""
        tabs = self._base.query_one(TabbedContent)
        tabs.active = name
        self.set_focus(next(iter(tabs.get_pane(name).query("PaneTable, Tree"))))

    def _table(self) -> PaneTable | None:
        focused = self.focused
        if isinstance(focused, PaneTable):
            return focused
        pane = self._base.query_one(TabbedContent).active_pane
        return None if pane is None else next(iter(pane.query(PaneTable)), None)

    def _pid(self) -> int | None:
        """The session under the cursor, of the table or of the tree."""
        if self._base.query_one(TabbedContent).active == "tab-waits":
            node = self._base.query_one("#waits", Tree).cursor_node
            return None if node is None else node.data
        table = self._table()
        row = table.current if table is not None and table.pane is view.SESSIONS else None
        return None if row is None else row["pid"]

    def action_act(self, name: str) -> None:
        """Cancel or terminate the session under the cursor, once that is confirmed."""
        pid, sample = self._pid(), self.sample
        if pid is None or sample is None:
            self.notify("No session is under the cursor.")
            return
        (row,) = [one for one in sample.parts["sessions"] if one["pid"] == pid] or [{}]
        about = view.printable(f"{row.get('role')}: {row.get('query')}", 200)
        server = sample.server

        async def act(confirmed: bool | None) -> None:
            if confirmed:
                await self._act(name, pid, server)

        text = f"{name.capitalize()} session {pid} of {server}?\n\n{about}"
        self.push_screen(Question(text), act)

    async def _act(self, name: str, pid: int, server: str) -> None:
        if self._monitor.server != server:  # pids are a server's own
            self.notify(f"{server} is not the server any more: nothing was done.", severity="error")
            return
        try:
            done = await self._monitor.act(_ACTIONS[name], pid)
        except (LostServerError, ServerRefusedError) as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.notify(f"{name} of {pid}: {'done' if done else 'there is no such session'}")
        self._wake.set()

    def action_sort(self, reverse: bool) -> None:
        """Sort the table by the next column, or the other way round."""
        table = self._table()
        if table is not None and self.sample is not None:
            table.turn(reverse=reverse)
            table.fill(self.sample.parts[table.pane.part], self._having)

    def action_filter(self) -> None:
        """Ask for a text that rows must have."""
        field = self._base.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_clear_filter(self) -> None:
        """Show all rows again."""
        field = self._base.query_one("#filter", Input)
        field.value = ""
        self._filtered(field)

    @on(Input.Submitted, "#filter")
    def _submitted(self, event: Input.Submitted) -> None:
        self._filtered(event.input)

    def _filtered(self, field: Input) -> None:
        self._having = field.value
        field.display = False
        self._draw()
        self.action_tab(self._base.query_one(TabbedContent).active)

    def action_pause(self) -> None:
        """Stop taking samples, or go on."""
        self.is_paused = not self.is_paused
        self._draw()
        self._wake.set()

    async def action_next_server(self) -> None:
        """Go to the next host of the URL."""
        self.is_paused = False
        await self._monitor.move()
        self._wake.set()

    @on(DataTable.RowSelected)
    def _selected(self, event: DataTable.RowSelected) -> None:
        table = event.data_table
        if isinstance(table, PaneTable) and table.current is not None:
            self.push_screen(FullText(table.current))
