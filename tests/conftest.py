"""Fixtures that every area's tests may use, how properties are tested everywhere, and where the time goes."""

import faulthandler
import gc
import os
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Protocol

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

from tests.support.compiled import refuse_patches_of_binaries, skip_weak_references
from tests.support.postgres import postgres

# How long an example takes says something of the machine, nothing of the code. Where every commit is
# judged (CI is set) examples are the same each time; new ones are for developers to find. `make soak` has
# more of them.
settings.register_profile(
    "herdpy",
    max_examples=int(os.environ.get("HERDPY_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("herdpy")

# A command in the background of a shell ignores Ctrl-C, and so does all that it starts; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["postgres"]

refuse_patches_of_binaries()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from looking through all modules and tests, over and over."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that share servers or a cluster of their area follow each other, after those that need none.

    So a cluster starts late in its area and never idles beside tests of other things.
    """
    needs: dict[Path, set[str]] = {}
    for item in items:
        needs.setdefault(item.path, set()).update(_shared_in_area(item))
    places = {area: number for number, area in enumerate(dict.fromkeys(map(_area, items)))}
    shared = {path: (len(names), sorted(names)) for path, names in needs.items()}
    items.sort(key=lambda item: (places[_area(item)], *shared[item.path]))


def _area(item: pytest.Item) -> str:
    return "/".join(item.nodeid.partition("::")[0].split("/")[:2])


def _shared_in_area(item: pytest.Item) -> set[str]:
    """The fixtures of scope package that a test needs; a file's own fixture of the name hides its area's."""
    if not isinstance(item, pytest.Function):
        return set()
    found = item._fixtureinfo.name2fixturedefs
    return {name for name, made in found.items() if made[-1].scope == "package"}


# A test whose time is over may hang where it cleans up: its process ends then, with the stacks of all its
# threads; pytest reports the test as failed, and another process goes on with the rest.
_CLEANING_UP_S = 60.0


class TimeLimit(Protocol):
    """What is used of pytest-timeout's settings of a test."""

    timeout: float


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: TimeLimit) -> Generator[None]:
    """Bound the time of a test that has failed for its time."""
    faulthandler.dump_traceback_later(
        settings.timeout + _CLEANING_UP_S, exit=True, file=item.config.stash[fault_handler_stderr_fd_key]
    )
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer() -> Generator[None]:
    """It ended."""
    faulthandler.cancel_dump_traceback_later()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """On compiled modules some tests have nothing to test."""
    try:
        return (yield)
    except TypeError as error:
        skip_weak_references(error)
        raise


_SHOWN_AREAS = 15
_SHOWN_AFTER_S = 120.0


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the areas and files that a long run spent most of its time in."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    timed = [report for report in reports if isinstance(report, pytest.TestReport)]
    areas: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for report in timed:
        path = report.nodeid.partition("::")[0]
        areas["/".join(path.split("/")[:2])] += report.duration
        files[path] += report.duration
    total_s = sum(areas.values())
    if total_s < _SHOWN_AFTER_S:
        return
    terminalreporter.section(f"seconds of {total_s:.0f} s in tests")
    for (area, area_s), (file, file_s) in zip(
        areas.most_common(_SHOWN_AREAS), files.most_common(_SHOWN_AREAS), strict=False
    ):
        terminalreporter.line(f"{area_s:7.1f}  {area:<28}{file_s:7.1f}  {file}")
