"""The parts of `make test`: all of them run, what they print is kept apart, and no failure is lost."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "run_tests.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_tests", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load()


def part(tool: ModuleType, name: str, program: str) -> object:
    return tool.Part(name, (sys.executable, "-c", program))


def test_parts_run_side_by_side_and_are_printed_apart(
    tool: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    met = tmp_path / "fifo"
    os.mkfifo(met)  # each end opens once the other does: both parts run at the same time
    parts = [
        part(tool, "main", f"print('first'); print(open({str(met)!r}).read())"),
        part(tool, "one", f"print('beside'); open({str(met)!r}, 'w').write('met')"),
        part(tool, "two", "print('last')"),
    ]
    assert tool.run(parts[0], parts[1:]) == 0
    said = capfd.readouterr().out
    assert said.split("\n\n")[0].split() == ["first", "met"]
    assert said.index("met") < said.index("one:\nbeside") < said.index("two:\nlast")
    assert "main: passed" in said


@pytest.mark.parametrize("failing", ["main", "one", "two"])
def test_each_failure_is_told(tool: ModuleType, failing: str, capfd: pytest.CaptureFixture[str]) -> None:
    programs = [
        part(tool, name, f"import sys; print('ran {name}'); sys.exit({3 if name == failing else 0})")
        for name in ("main", "one", "two")
    ]
    assert tool.run(programs[0], programs[1:]) == 1
    said = capfd.readouterr().out
    assert all(f"ran {name}" in said for name in ("main", "one", "two"))
    assert f"{failing}: FAILED with 3" in said
    assert said.count("FAILED") == 1


def test_who_ends_it_ends_its_parts(tmp_path: Path) -> None:
    main, beside = tmp_path / "main", tmp_path / "beside"
    for fifo in (main, beside):
        os.mkfifo(fifo)
    waits = "import sys, signal; open(sys.argv[1], 'w').write(str(__import__('os').getpid())); signal.pause()"
    script = (
        f"import runpy, signal, sys; tool = runpy.run_path({str(TOOL)!r}); "
        "signal.signal(signal.SIGTERM, tool['_end']); Part = tool['Part']; "
        f"main, one = (Part(x, (sys.executable, '-c', {waits!r}, x)) for x in {[str(main), str(beside)]!r}); "
        "tool['run'](main, [one, Part('never', ('/no/such/program',))])"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    pids = [int(fifo.read_text()) for fifo in (main, beside)]
    runner.send_signal(signal.SIGTERM)
    _, said = runner.communicate()
    assert runner.returncode == 1
    assert said.decode().strip().endswith("ended")
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_every_test_is_in_one_part(tool: ModuleType) -> None:
    main, spark, suites, scripts = (tool.MAIN, *tool.BESIDE)
    assert main.command[-1] == "not soak and not spark"
    assert spark.command[-2:] == ("spark and not soak", "tests/spark")
    assert suites.command[1:] == ("tests/sqlalchemy/run.py", "--listed")
    assert scripts.command[1:3] == ("tests/suites/run.py", "regress")
    marks = [path for path in (ROOT / "tests").rglob("conftest.py") if '"spark")' in path.read_text()]
    assert marks == [ROOT / "tests" / "spark" / "conftest.py"]
