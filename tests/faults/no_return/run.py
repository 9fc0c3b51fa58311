"""One scenario, one step after which it fails, one error: and the verdict."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import herdpy
from herdpy.dbapi import link
from herdpy_server.embedded import Database
from herdpy_server.store import Store
from tests.faults.no_return.doors import ERRORS, Doors
from tests.faults.no_return.embedded import SCENARIOS, SETTINGS, Scene, make, works
from tests.faults.no_return.judge import Judge


class BrokenPromiseError(Exception):
    """Something was reported, or was there, that must not have been."""


def steps_of(name: str, directory: Path) -> list[str]:
    """The steps that a scenario has."""
    doors = Doors()
    strike(name, 1_000_000, "RuntimeError", directory, doors)
    return doors.steps


def strike(name: str, nth: int, kind: str, directory: Path, doors: Doors | None = None) -> str | None:
    """Run a scenario with an error after its nth step; the step, None when there are not so many.

    Raises BrokenPromiseError when something is wrong.
    """
    judge = Judge(is_defect=kind == "RuntimeError")
    with _quiet(), doors or Doors() as doors:
        scene = Scene(directory / "db", judge, SETTINGS[name])
        scene.open()
        make(scene)
        doors.arm(nth, ERRORS[kind])
        _act(lambda: SCENARIOS[name](scene), judge)
        doors.disarm()
        _after(name, scene, judge)
    if judge.wrong:
        told = "\n  ".join(judge.wrong)
        changes = "\n  ".join(f"{one.name}: {one.outcome} {one.told}" for one in judge.changes)
        raise BrokenPromiseError(
            f"{name}, {kind} after step {nth}, {doors.struck}:\n  {told}\ntold:\n  {changes}"
        )
    return doors.struck


@contextmanager
def _quiet() -> Iterator[None]:
    """Nobody is warned of errors that are put in."""
    logger = logging.getLogger("herdpy")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _act(work: Callable[[], None], judge: Judge) -> None:
    try:
        work()
    except herdpy.Error as error:  # of opening and closing, which have no outcome
        judge._clear("opening or closing was refused", error)
    except AssertionError:
        raise
    except BaseException as error:
        if type(error).__name__ not in ERRORS:
            raise


def _after(name: str, scene: Scene, judge: Judge) -> None:
    if scene.connection is not None and _has_table(scene.connection):
        goes_on = _writes(scene, judge, -1) or _writes(scene, judge, -2)
        judge.look(scene.connection, works=goes_on)
    with suppress(herdpy.Error):
        if scene.connection is not None:
            scene.close()
    link.settle()
    left = Database._shared.pop(os.path.realpath(scene.path), None)  # those of other tests may be open
    if left is not None:
        judge.wrong.append(f"still open: {left}")
    for time in (1, 2):
        try:
            scene.open()
        except herdpy.Error as error:
            judge.wrong.append(f"it does not open, time {time}: {error.sqlstate} {error}")
            return
        if name == "a_making":
            make(scene)
        judge.look(scene.connection, works=None)
        if not _writes(scene, judge, -10 - time):
            judge.wrong.append("nothing can be written after opening again")
        if time == 2:
            scene.execute("CHECKPOINT")
        scene.connection.close()
        _check(scene, judge)


def _has_table(connection: herdpy.Connection) -> bool:
    try:
        return bool(works("SELECT id FROM t WHERE id = 1")(connection))
    except herdpy.OperationalError:  # it is known, and cannot be read
        return True


def _writes(scene: Scene, judge: Judge, number: int) -> bool:
    scene.insert(number)
    return judge.changes[-1].outcome == "done"


def _check(scene: Scene, judge: Judge) -> None:
    """The store is whole, and the log's directory has what the list names."""
    store = Store.open(scene.path / "store", read_only=True)
    try:
        judge.wrong += [f"the store: {finding}" for finding in store.check()]
    finally:
        store.close()
