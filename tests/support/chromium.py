"""A real Chromium for tests, by the DevTools protocol over a pipe: no driver, no port, no package.

:class:`Chromium` is the browser, :class:`Tab` a page of it. Messages are JSON with a NUL behind; a thread
reads them. Whatever a page complains of (errors, exceptions, the content policy) is in ``Tab.problems``.
Waiting is done in the page (:meth:`Tab.wait_for`), so no test sleeps.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE_S = 30.0
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_EXEC = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--hide-scrollbars",
    "--lang=en-US",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-proxy-server",
    "--no-service-autorun",
    "--password-store=basic",
    "about:blank",
)
_WAIT = """
new Promise((resolve, reject) => {
  const until = performance.now() + %d;
  const look = () => {
    let found;
    try { found = (%s); } catch (error) { found = false; }
    if (found) resolve(found === true ? true : String(found));
    else if (performance.now() > until) reject(new Error("not in time"));
    else setTimeout(look, 15);
  };
  look();
})
"""
#: Of keys that are no characters: their codes.
_KEYS = {
    "Tab": 9,
    "Enter": 13,
    "Escape": 27,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Backspace": 8,
    "Delete": 46,
}
_TEXTS = {"Enter": "\r", " ": " "}
SHIFT, CONTROL = 8, 2


class BrowserError(AssertionError):
    """The browser refuses what it is to do, or a page does not become what is waited for."""


def program() -> str | None:
    """Where Chromium is; None: there is none."""
    return next((found for name in _PROGRAMS if (found := shutil.which(name))), None)


class Chromium:
    """One browser process with a profile of its own."""

    def __init__(self, directory: Path) -> None:
        """Start it; ``directory`` is for its profile."""
        found = program()
        assert found is not None, "there is no chromium: tools/install-chromium.sh installs it"
        to_it, self._to = _high(os.pipe())
        self._from, from_it = _high(os.pipe())
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        command = [found, f"--user-data-dir={directory}", *sandbox, *_FLAGS]
        self._log = (directory.parent / f"{directory.name}.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _EXEC, str(to_it), str(from_it), *command],
            pass_fds=(to_it, from_it),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        os.close(to_it)
        os.close(from_it)
        self._changed = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._tabs: dict[str, Tab] = {}
        self._number = 0
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with open(self._from, "rb", buffering=0, closefd=False) as source:
            kept = b""
            while data := source.read(1 << 16):
                *messages, kept = (kept + data).split(b"\0")
                for one in messages:
                    self._take(json.loads(one))
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        with self._changed:
            if "id" in message:
                self._answers[message["id"]] = message
            elif (tab := self._tabs.get(message.get("sessionId", ""))) is not None:
                tab.heard(message["method"], message["params"])
            self._changed.notify_all()

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Have it do something, and give the answer. BrowserError when it refuses."""
        with self._changed:
            self._number += 1
            number = self._number
            message: dict[str, Any] = {"id": number, "method": method, "params": params}
            if session:
                message["sessionId"] = session
            data = json.dumps(message).encode() + b"\0"
            while data:
                data = data[os.write(self._to, data) :]
            self._changed.wait_for(lambda: number in self._answers or self._is_over, PATIENCE_S)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise BrowserError(f"no answer to {method}")
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def wait(self, is_so: Any, what: str) -> None:
        """Wait until something was heard."""
        with self._changed:
            if not self._changed.wait_for(lambda: is_so() or self._is_over, PATIENCE_S) or not is_so():
                raise BrowserError(f"the browser does not say: {what}")

    def tab(self, width: int = 1280, height: int = 800, *, dark: bool = False, scale: float = 1) -> Tab:
        """A page with cookies of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, context)
        with self._changed:
            self._tabs[session] = tab
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height, scale)
        tab.prefer(dark=dark)
        return tab

    def forget(self, session: str) -> None:
        """A tab is closed."""
        with self._changed:
            self._tabs.pop(session, None)

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(BrowserError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE_S)
        for end in (self._to, self._from):
            os.close(end)
        self._log.close()


def _high(ends: tuple[int, int]) -> tuple[int, int]:
    """The ends of a pipe, away from the numbers that the browser's are to have."""
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


class Tab:
    """A page.

    Attributes:
        problems: what the page has complained of.
    """

    def __init__(self, browser: Chromium, session: str, context: str) -> None:
        self.problems: list[str] = []
        self.loads = 0
        self._browser = browser
        self._session = session
        self._context = context

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """See ``Chromium.call``."""
        return self._browser.call(method, self._session, **params)

    def heard(self, event: str, params: dict[str, Any]) -> None:
        """The browser says something of it."""
        if event == "Page.loadEventFired":
            self.loads += 1
        elif event == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.problems.append(params["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.problems.append(" ".join(str(one.get("value", one)) for one in params["args"]))

    def wait_for_problem(self, part: str) -> None:
        """Wait until the page has complained of something with that in its text."""
        self._browser.wait(lambda: any(part in one for one in self.problems), f"a problem with {part!r}")

    # How it looks.

    def resize(self, width: int, height: int, scale: float = 1) -> None:
        """Make it another size, in CSS's pixels; a narrow one is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def prefer(self, *, dark: bool) -> None:
        """Light or dark."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write what is seen, or all of the page, as a PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)[
                "data"
            ]
        path.write_bytes(base64.b64decode(data))

    # Going and looking.

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        with self.loading():
            failure = self.call("Page.navigate", url=url).get("errorText")
            if failure:
                raise BrowserError(f"{url}: {failure}")

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """What is done within it leads to another page, which is loaded after it."""
        loads = self.loads
        yield
        self._browser.wait(lambda: self.loads > loads, "that a page is loaded")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited. BrowserError for what it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Wait until an expression is true; its value. BrowserError when it does not become so."""
        try:
            return self.evaluate(_WAIT % (PATIENCE_S * 500, expression))
        except BrowserError as error:
            shown = self.evaluate("document.body.innerText")
            raise BrowserError(f"not so: {expression} ({error})\n{shown}") from None

    @property
    def text(self) -> str:
        """What is to be read."""
        found: str = self.evaluate("document.body.innerText")
        return found

    @property
    def address(self) -> str:
        """Where it is: path and query."""
        found: str = self.evaluate("location.pathname + location.search")
        return found

    @property
    def focus(self) -> str:
        """What has the focus: its text, label or name."""
        found: str = self.evaluate(
            "(e => (e.innerText || e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.name || e.id"
            " || e.tagName).trim().split('\\n')[0])(document.activeElement)"
        )
        return found

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        found: int = self.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found

    # Keys and the mouse.

    def press(self, *keys: str, modifiers: int = 0) -> None:
        """Press keys, one after the other: "Tab", "Enter", "a"."""
        for key in keys:
            code = _KEYS.get(key, ord(key[0].upper()))
            text = "" if modifiers & CONTROL else _TEXTS.get(key, key if len(key) == 1 else "")
            given = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
            kind = "keyDown" if text else "rawKeyDown"
            self.call("Input.dispatchKeyEvent", type=kind, text=text, **given)
            self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        for character in text:
            if character == "\n":
                self.press("Enter")
            else:
                self.press(character)

    def tab_to(self, name: str, *, most: int = 80) -> None:
        """Press Tab until the focus is on what has that text, label or name."""
        seen = []
        for _ in range(most):
            self.press("Tab")
            seen.append(self.focus)
            if seen[-1] == name:
                return
        raise BrowserError(f"Tab does not lead to {name!r}, but to {seen}")

    def click(self, selector: str) -> None:
        """Click the middle of the first element of a CSS selector."""
        found = self.evaluate(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=found[0], y=found[1], button="left", clickCount=1
            )

    def close(self) -> None:
        """Close it, and forget its cookies."""
        self._browser.forget(self._session)
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)
