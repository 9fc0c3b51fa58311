"""Are the registers of a history linearizable? Asked of Porcupine, where Go is; else of our own checker.

Porcupine (Anish Athalye) is written in Go and a judge that nobody here wrote. A small program on it,
`porcupine_go`, is built once per machine into the cache directory of herdpy.testing; Go fetches the module
by the user's own settings (GOPROXY, GOFLAGS) and checks it against go.sum. Our own checker says why a
register is not linearizable, for Porcupine tells only that. If they do not agree, that is an anomaly as well.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from herdpy.drill.checkers import linearizable
from herdpy.drill.checkers.linearizable import RegisterStep, moments, steps_by_key
from herdpy.drill.history import DrillHistory, Json
from herdpy.drill.judging import UNDECIDED, Anomaly, Verdict
from herdpy.testing.errors import KitError, MissingSoftwareError
from herdpy.testing.java import cache_directory

DISAGREE = "checkers disagree"
THINKING_S = 30.0
"""How long Porcupine may think about all registers of a history."""

_SOURCE = Path(__file__).parent / "porcupine_go"
_FETCH_S = 60.0
_SPARE_S = 60.0
_BUILD_S = 300.0


def check(history: DrillHistory, *, initial: Json = None, thinking_s: float = THINKING_S) -> Verdict:
    """Judge every register (read, write, cas) of the history on its own, as `linearizable.check` does.

    The summary says who judged, and why it was not Porcupine.

    Raises: HistoryError: an operation of a register is not as herdpy.drill.history describes it. KitError:
        Porcupine's program does not compile, or failed.
    """
    own = linearizable.check(history, initial=initial)
    try:
        judge = program()
    except MissingSoftwareError as error:
        own.summary += f" (by our own checker: {error})"
        return own
    by_key = steps_by_key(history, initial)
    results = ask(judge, by_key, thinking_s)
    own.summary += " (by Porcupine and our own checker)"
    given_up = 0
    for key, result in sorted(results.items()):
        mine = next((each for each in own.anomalies if each.text.startswith(f"register {key}:")), None)
        if result == "Unknown":
            given_up += 1
        elif result == "Ok" and mine is not None and mine.kind == UNDECIDED:
            own.anomalies.remove(mine)
        elif (result == "Ok") != (mine is None):
            text = (
                f"register {key}: Porcupine reports {result}, our own checker {mine.text if mine else 'Ok'}"
            )
            own.anomalies.append(Anomaly(DISAGREE, text, [step.operation for step in by_key[key]]))
    if given_up:
        own.summary += f" (Porcupine gave up on {given_up} of them after {thinking_s:g} s)"
    own.valid = not own.anomalies
    return own


def program() -> Path:
    """The program on Porcupine, built if need be.

    Raises: MissingSoftwareError: Go is not installed, or the module cannot be fetched. KitError: the program
        does not compile.
    """
    go = shutil.which("go")
    if go is None:
        raise MissingSoftwareError("Go is not installed (Debian: apt-get install golang-go)")
    texts = [(_SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")]
    home = cache_directory()
    built = home / f"porcupine-{hashlib.sha256(b''.join(texts)).hexdigest()[:16]}"
    if built.exists():
        return built
    with (
        (home / "porcupine.lock").open("w") as lock,
        tempfile.TemporaryDirectory(prefix="porcupine-build-", dir=home) as scratch,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(go, Path(scratch), built)
    return built


def _build(go: str, scratch: Path, built: Path) -> None:
    for name in ("main.go", "go.mod", "go.sum"):
        shutil.copy(_SOURCE / name, scratch)
    try:
        fetched = _go(go, scratch, "mod", "download", timeout_s=_FETCH_S)
    except subprocess.TimeoutExpired as error:
        raise MissingSoftwareError(f"Go could not fetch Porcupine in {_FETCH_S:g} s") from error
    if fetched.returncode != 0:
        last = (fetched.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise MissingSoftwareError(f"Go could not fetch Porcupine: {last}")
    made = _go(go, scratch, "build", "-trimpath", "-buildvcs=false", "-o", "judge", ".")
    if made.returncode != 0:
        raise KitError(f"{_SOURCE} does not compile:\n{made.stderr}")
    (scratch / "judge").replace(built)


def _go(
    go: str, directory: Path, *arguments: str, timeout_s: float = _BUILD_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [go, *arguments],
        cwd=directory,
        env=os.environ | {"GOWORK": "off", "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
    )


def ask(judge: Path, by_key: dict[str, list[RegisterStep]], thinking_s: float = THINKING_S) -> dict[str, str]:
    """What Porcupine says of each register: "Ok", "Illegal", or "Unknown" when the time was too short.

    Raises: KitError: the program failed.
    """
    asked = "".join(json.dumps({"key": key, "steps": _placed(steps)}) + "\n" for key, steps in by_key.items())
    done = subprocess.run(
        [str(judge), f"-timeout={thinking_s}s"],
        input=asked,
        capture_output=True,
        text=True,
        check=False,
        timeout=thinking_s + _SPARE_S,
    )
    if done.returncode != 0:
        raise KitError(f"Porcupine's program failed: {done.stderr.strip()}")
    answers = map(json.loads, done.stdout.splitlines())
    return {answer["key"]: answer["result"] for answer in answers}


def _placed(steps: list[RegisterStep]) -> list[list[int]]:
    """Each step with places in one order for its times, so that moments that are equal stay concurrent."""
    places = [[2 * len(steps)] * 2 for _ in steps]
    for place, (_, is_return, index) in enumerate(moments(steps)):
        places[index][is_return] = place
    return [[step.kind, step.expected, step.value, *where] for step, where in zip(steps, places, strict=True)]
