"""The benchmarks' account of CPU: whose it is, and what the machine had left."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"
BURN_S = 0.3
_WORK = f"import time\nwhile time.process_time() < {BURN_S}: pass"
_KEEPER = f"""
import subprocess, sys
for line in sys.stdin:
    subprocess.run([sys.executable, "-c", {_WORK!r}], check=True)
    print("done", flush=True)
"""


@pytest.fixture
def processor_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("processor_time")
    sys.modules.pop("processor_time", None)


def test_a_process_counts_with_what_it_started_and_the_client_apart(processor_time: ModuleType) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _KEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as keeper:
        orders, answers = keeper.stdin, keeper.stdout
        assert orders is not None
        assert answers is not None

        def run() -> tuple[float, int]:
            print("go", file=orders, flush=True)
            assert answers.readline() == "done\n"
            subprocess.run([sys.executable, "-c", _WORK], check=True)
            return 5.0, 10

        found = processor_time.measured({"keeper": keeper.pid, "this": os.getpid()}, run)
        orders.close()
    assert found.rate == 5.0
    least_us = BURN_S / 10 * 1e6 * 0.9  # ticks are coarse
    assert found.costs["keeper"] > least_us
    assert found.costs[processor_time.CLIENT] > least_us
    assert found.costs["this"] > 2 * least_us
    assert 0.0 <= found.costs[processor_time.IDLE] <= 1.0


def test_switches_count_in_all_threads_of_a_family(processor_time: ModuleType) -> None:
    work = "import sys, threading, time\nsys.stdin.readline()\n"
    work += "rest = lambda: [time.sleep(0.001) for _ in iter(int, 1)] and None\n"  # for ever
    work += "threads = [threading.Thread(target=rest, daemon=True) for _ in range(2)]\n"
    work += "[one.start() for one in threads]\n"
    work += "print('done', flush=True)\nsys.stdin.readline()\n"
    nested = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {work!r}], check=True)"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        orders, answers = process.stdin, process.stdout
        assert orders is not None
        assert answers is not None
        before = processor_time.switches_of({"it": process.pid})
        print("go", file=orders, flush=True)
        assert answers.readline() == "done\n"
        while processor_time.switches_of({"it": process.pid})["it"] < before["it"] + 2 * 20:
            pass  # the threads rest and wake
        print("end", file=orders, flush=True)
    assert processor_time.switches_of({"it": process.pid}) == {"it": 0}


def test_the_median_of_runs_is_taken_by_process(processor_time: ModuleType) -> None:
    runs = [processor_time.Measured(1.0, {"server": cost, "idle": 0.5}) for cost in (1.0, 9.0, 2.0)]
    assert processor_time.median_costs(runs) == {"server": 2.0, "idle": 0.5}


def test_who_listens_is_found_by_the_port(processor_time: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert processor_time.listener(port) == os.getpid()
    with pytest.raises(LookupError):
        processor_time.listener(port)
