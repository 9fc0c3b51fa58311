"""A real Chromium for tests, driven by Selenium: a page, its keys, its look, and what it complains of.

:class:`Chromium` is the browser, :class:`Tab` a page of it. Whatever a page complains of (errors, exceptions,
the content policy) is in ``Tab.problems``. Waiting is done in the page (:meth:`Tab.wait_for`), so no test
sleeps. A tab has a browser process of its own, which the next tab takes over without its cookies.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

PATIENCE_S = 30.0
_NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
_LOADS = 10
_POLL_S = 0.02
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless=new",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--lang=en-US",
    "--no-proxy-server",
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
_FOCUS = """
(e => (e.innerText || e.labels?.[0]?.innerText || e.getAttribute('aria-label') || e.name || e.id
  || e.tagName).trim().split('\\n')[0])(document.activeElement)
"""
_KEYS = {
    "Tab": Keys.TAB,
    "Enter": Keys.ENTER,
    "Escape": Keys.ESCAPE,
    " ": Keys.SPACE,
    "End": Keys.END,
    "Home": Keys.HOME,
    "ArrowLeft": Keys.ARROW_LEFT,
    "ArrowUp": Keys.ARROW_UP,
    "ArrowRight": Keys.ARROW_RIGHT,
    "ArrowDown": Keys.ARROW_DOWN,
    "Backspace": Keys.BACKSPACE,
    "Delete": Keys.DELETE,
}
SHIFT, CONTROL = Keys.SHIFT, Keys.CONTROL


class BrowserError(AssertionError):
    """The browser refuses what it is to do, or a page does not become what is waited for."""


def program() -> str | None:
    """Where Chromium is; None: there is none."""
    return next((found for name in _PROGRAMS if (found := shutil.which(name))), None)


class Chromium:
    """Browser processes, each with a profile of its own that is gone at its end."""

    def __init__(self) -> None:
        self._idle: list[Chrome] = []
        self._all: list[Chrome] = []

    def tab(self, width: int = 1280, height: int = 800, *, dark: bool = False, scale: float = 1) -> Tab:
        """A page with cookies of its own."""
        tab = Tab(self._idle.pop() if self._idle else self._start(), self._idle)
        tab.resize(width, height, scale)
        tab.prefer(dark=dark)
        return tab

    def _start(self) -> Chrome:
        found, driver = program(), shutil.which("chromedriver")
        assert found is not None, "there is no chromium: tools/install-chromium.sh installs it"
        assert driver is not None, "there is no chromedriver: tools/install-chromium.sh installs it"
        options = ChromeOptions()
        options.binary_location = found
        for flag in [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        browser = Chrome(options=options, service=ChromeService(driver))
        browser.set_script_timeout(PATIENCE_S)
        self._all.append(browser)
        return browser

    def close(self) -> None:
        """End them."""
        for browser in self._all:
            browser.quit()


class Tab:
    """A page."""

    def __init__(self, browser: Chrome, idle: list[Chrome]) -> None:
        """``idle`` takes the browser when the page is closed."""
        self._browser = browser
        self._idle = idle
        self._problems: list[str] = []

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the DevTools protocol. BrowserError when it refuses."""
        try:
            return self._browser.execute_cdp_cmd(method, params)
        except WebDriverException as error:
            raise BrowserError(f"{method}: {error.msg}") from None

    @property
    def problems(self) -> list[str]:
        """What the page has complained of; the caller may clear it."""
        logged = self._browser.get_log("browser")
        self._problems += [one["message"] for one in logged if one["level"] in {"SEVERE", "WARNING"}]
        return self._problems

    def wait_for_problem(self, part: str) -> None:
        """Wait until the page has complained of something with that in its text."""
        self._wait(lambda _: any(part in one for one in self.problems), f"a problem with {part!r}")

    def _wait(self, is_so: Any, what: str) -> None:
        try:
            WebDriverWait(self._browser, PATIENCE_S, poll_frequency=_POLL_S).until(is_so)
        except TimeoutException:
            raise BrowserError(f"not in time: {what}") from None

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
        given: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            given["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **given)["data"]))

    # Going and looking.

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded.

        Again where the machine's network changed meanwhile: tests beside this one make interfaces, and the
        browser ends what it loads then, from loopback, too.
        """
        for _ in range(_LOADS):
            try:
                self._browser.get(url)
            except WebDriverException as error:
                if _NETWORK_CHANGED in (error.msg or ""):
                    continue
                raise BrowserError(f"{url}: {error.msg}") from None
            if not any(_NETWORK_CHANGED in one for one in self.problems):
                return
            self._problems = [one for one in self._problems if _NETWORK_CHANGED not in one]
        raise BrowserError(f"{url}: the machine's network changes all the time")

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """What is done within it leads to another page, which is loaded after it."""
        old = self._document
        yield
        self._wait(lambda _: self._document != old, "another page")
        self.wait_for("document.readyState === 'complete'")

    @property
    def _document(self) -> str:
        """The id of the load that the document is of. An element of a page that goes away may be of none."""
        found: str = self.call("Page.getFrameTree")["frameTree"]["frame"]["loaderId"]
        return found

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
        found: str = self.evaluate(_FOCUS)
        return found

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        found: int = self.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return found

    # Keys and the mouse.

    def press(self, *keys: str, modifiers: str = "") -> None:
        """Press keys, one after the other: "Tab", "Enter", "a". ``modifiers`` are held: SHIFT, CONTROL."""
        chain = ActionChains(self._browser, duration=0)
        for held in modifiers:
            chain.key_down(held)
        for key in keys:
            chain.send_keys(_KEYS.get(key, key))
        for held in modifiers:
            chain.key_up(held)
        chain.perform()

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        ActionChains(self._browser, duration=0).send_keys(text.replace("\n", Keys.ENTER)).perform()

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
        element = self._browser.find_element(By.CSS_SELECTOR, selector)
        ActionChains(self._browser, duration=0).scroll_to_element(element).click(element).perform()

    def close(self) -> None:
        """Close it, and forget its cookies and what it has stored."""
        origin = self.evaluate("location.origin")
        if origin != "null":
            self.call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self.call("Network.clearBrowserCookies")
        self.open("about:blank")
        self.problems.clear()
        self._idle.append(self._browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A browser for all tests of a process."""
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Tab]:
    """A page of a desktop's size, with cookies of its own."""
    made = chromium.tab()
    yield made
    made.close()
