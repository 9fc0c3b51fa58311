"""Makes the pictures of ``herdpy top`` and of the console's pages of data: `python tools/data_pictures.py`.

A server of its own with a small shop, clients that pay, report and block each other, a real Chromium, and
Textual's pilot. The pictures go to docs/pictures/.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from tests.support.chromium import CONTROL, Chromium, Tab  # noqa: E402
from tests.support.server_process import RunningServer  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SCHEMA = (
    "CREATE ROLE shop LOGIN",
    "CREATE ROLE reports LOGIN",
    "CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, country text DEFAULT 'NO')",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL REFERENCES customers,"
    " placed date NOT NULL, amount numeric(10,2) CHECK (amount > 0), state text DEFAULT 'open')",
    "CREATE INDEX orders_placed ON orders (placed)",
    "COMMENT ON TABLE orders IS 'What was sold, and to which customer'",
    "COMMENT ON COLUMN orders.amount IS 'in euros, with tax'",
    "INSERT INTO customers SELECT g, 'Customer ' || g,"
    " CASE g % 4 WHEN 0 THEN 'NO' WHEN 1 THEN 'IS' WHEN 2 THEN 'DK' ELSE 'SE' END"
    " FROM generate_series(1, 2000) g",
    "INSERT INTO orders SELECT g, 1 + g % 2000, '2026-01-01'::date + (g % 330)::int,"
    " 5 + (g * 7919 % 20000) / 100.0 + g % 330, CASE WHEN g % 9 = 0 THEN 'open' ELSE 'paid' END"
    " FROM generate_series(1, 50000) g",
    "GRANT SELECT, UPDATE ON orders, customers TO shop",
    "GRANT SELECT ON orders, customers TO reports",
)
REPORT = """\
SELECT date_trunc('month', o.placed)::date AS month,
       sum(o.amount) FILTER (WHERE c.country = 'NO') AS norway,
       sum(o.amount) FILTER (WHERE c.country = 'IS') AS iceland,
       sum(o.amount) FILTER (WHERE c.country = 'DK') AS denmark
FROM orders o JOIN customers c ON c.id = o.customer
WHERE o.placed < '2026-11-01' GROUP BY 1 ORDER BY 1"""
SAMPLES = 40


@contextmanager
def clients(server: RunningServer) -> Iterator[None]:
    """Sessions that work, and three that wait for a fourth, while the block runs."""
    over = threading.Event()

    def connect(user: str, name: str) -> Any:
        return server.connect(user=user, dbname="herdpy", application_name=name)

    def pay() -> None:
        till = connect("shop", "till 1")
        while not over.wait(0.004):
            order = random.randrange(1, 40_000)
            till.execute("UPDATE orders SET state = 'paid' WHERE id = %s", (order,))

    def report() -> None:
        dashboard = connect("reports", "dashboard")
        while not over.wait(0.7):
            dashboard.execute("SELECT state, count(*), sum(amount) FROM orders GROUP BY state ORDER BY 1")

    def wait(till: Any, *statements: str) -> Callable[[], None]:
        def run() -> None:
            for statement in statements:
                till.execute(statement)

        return run

    holder, till = connect("shop", "stock check"), connect("shop", "till 2")
    for session, order in ((holder, 49_999), (till, 49_998)):
        session.execute("BEGIN")
        session.execute(f"UPDATE orders SET state = 'checked' WHERE id = {order}")
    blocked = wait(till, "UPDATE orders SET state = 'sent' WHERE id = 49999", "ROLLBACK")
    behind = wait(connect("shop", "till 3"), "UPDATE orders SET amount = amount + 1 WHERE id = 49998")
    threads = [threading.Thread(target=one) for one in (pay, report, blocked, behind)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        holder.execute("ROLLBACK")
        for thread in threads:
            thread.join()


def write(tab: Tab, text: str) -> None:
    """Type into the empty editor, without its completions."""
    tab.evaluate("document.getElementById('sql').value = ''; document.getElementById('sql').focus()")
    tab.type(text)
    tab.press("Escape")


def console(server: RunningServer, tab: Tab) -> None:
    """The pages."""
    url = f"http://localhost:{server.http_port}/console/"
    to = PICTURES / "console"
    tab.open(f"{url}sessions")
    tab.wait_for("document.querySelectorAll('.waits .step').length > 2")
    tab.picture(to / "sessions.png")
    tab.open(f"{url}statements")
    tab.click("tbody:nth-of-type(2) summary")
    tab.picture(to / "statements.png")
    tab.open(f"{url}tables/one?schema=public&name=orders")
    tab.wait_for("document.querySelector('.facts').textContent.includes('50')")
    tab.picture(to / "table.png")
    tab.open(f"{url}sql")
    write(tab, "SELECT * FROM orders o WHERE o.")
    tab.press(" ", modifiers=CONTROL)
    tab.wait_for("document.querySelectorAll('#names li').length > 3")
    tab.picture(to / "complete.png")
    write(tab, REPORT)
    tab.press("Enter", modifiers=CONTROL)
    tab.wait_for("document.querySelector('.answer .chart')")
    tab.click(".answer .chart summary")
    tab.wait_for("document.querySelector('.picture')")
    tab.resize(1280, 1320)
    tab.evaluate("window.scrollTo(0, 0)")
    tab.picture(to / "sql.png")
    tab.evaluate(
        "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Explain analyze').click()"
    )
    tab.wait_for("document.querySelectorAll('.plan .step').length > 2")
    tab.evaluate("document.querySelector('#results').scrollIntoView()")
    tab.picture(to / "plan.png")


async def top(server: RunningServer) -> None:
    """The terminal."""
    from herdpy.cli.status import servers_of
    from herdpy.top.monitor import Monitor
    from herdpy.top.screen import TopScreen

    url = f"herdpy://herdpy@127.0.0.1:{server.port}/herdpy"
    screen = TopScreen(Monitor(servers_of(url)), 0.5)
    async with screen.run_test(size=(132, 20)) as pilot:
        for _ in range(SAMPLES):
            await pilot.pause(0.1)
        text = screen.export_screenshot(title="herdpy top")
    text = re.sub(
        r"@font-face \{.*?\}", "", text, flags=re.DOTALL
    )  # a page of ours loads nothing from elsewhere
    (PICTURES / "top.svg").write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def main() -> None:
    """Make all of them."""
    (PICTURES / "console").mkdir(exist_ok=True)
    browser = Chromium()
    with tempfile.TemporaryDirectory() as directory:
        server = RunningServer(Path(directory) / "shop").ready()
        try:
            with server.connect(user="herdpy", dbname="herdpy") as connection:
                for statement in SCHEMA:
                    connection.execute(statement)
            with clients(server):
                asyncio.run(top(server))
                console(server, browser.tab())
        finally:
            browser.close()
            server.close()


if __name__ == "__main__":
    main()
