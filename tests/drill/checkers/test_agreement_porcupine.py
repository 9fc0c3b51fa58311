"""Porcupine and our own checker of registers say the same of good and bad histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from herdpy.drill.checkers import linearizable, porcupine
from herdpy.drill.checkers.linearizable import steps_by_key
from herdpy.drill.judging import Anomaly, Verdict
from herdpy.testing.errors import MissingSoftwareError
from tests.drill.checkers.hand import UNKNOWN, one_by_one, op
from tests.drill.checkers.register_histories import linearizable_history, spoilt
from tests.drill.checkers.test_linearizable import BAD, GOOD


@pytest.fixture(scope="module")
def judge() -> Path:
    try:
        return porcupine.program()
    except MissingSoftwareError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("size", [12, 40])
def test_both_say_the_same_of_random_histories(judge, size, monkeypatch):
    monkeypatch.setattr(linearizable, "_FEW", 0)  # configurations are always compared with each other
    registers = {}
    for seed in range(200):
        good = linearizable_history(
            seed,
            size,
            clients=2 + seed % 6,
            unknown=(0.05, 0.2, 0.0)[seed % 3] if size < 20 else 0.03,
            swaps=(0.2, 0.5, 0.0)[seed // 3 % 3],
            values=(None, 3, 8)[seed % 3],
        )
        for what, history in (("good", good), ("spoilt", spoilt(good, seed))):
            for key, steps in steps_by_key(history).items():
                registers[f"{what} {seed} {key}"] = steps
    mine = {
        name: "Ok" if linearizable.first_failure(steps) is None else "Illegal"
        for name, steps in registers.items()
    }
    assert porcupine.ask(judge, registers) == mine
    assert {answer for name, answer in mine.items() if name.startswith("good")} == {"Ok"}
    assert list(mine.values()).count("Illegal") > 50


def test_both_say_the_same_of_histories_by_hand(judge):
    for what, history in {**BAD, **GOOD}.items():
        expected = "Illegal" if what in BAD else "Ok"
        answers = porcupine.ask(judge, steps_by_key(history))
        assert ("Illegal" in answers.values()) == (expected == "Illegal"), what


def test_the_verdict_says_that_both_judged(judge):
    good = porcupine.check(GOOD["swaps in a chain"])
    assert good.valid
    assert good.summary.endswith("(by Porcupine and our own checker)")
    bad = porcupine.check(BAD["a stale read"])
    assert not bad.valid
    assert bad.kinds == [linearizable.NOT_LINEARIZABLE]


def test_checkers_that_disagree_are_an_anomaly(judge, monkeypatch):
    blind = Verdict("registers", True, "nothing", [])
    monkeypatch.setattr(linearizable, "check", lambda *_, **__: blind)
    verdict = porcupine.check(BAD["a stale read"])
    assert not verdict.valid
    assert verdict.kinds == [porcupine.DISAGREE]


def test_porcupine_decides_where_our_own_checker_does_not(judge, monkeypatch):
    undecided = Verdict.of("registers", [Anomaly("undecided", "register x: too much")], "little")
    monkeypatch.setattr(linearizable, "check", lambda *_, **__: undecided)
    assert porcupine.check(GOOD["swaps in a chain"]).valid


def test_a_long_history_with_unknown_writes_is_judged_by_both(judge):
    history = linearizable_history(3, 5_000, clients=10, keys=10, unknown=0.01)
    verdict = porcupine.check(history)
    assert verdict.valid
    assert "gave up" not in verdict.summary


def test_without_go_our_own_checker_judges_and_says_why(monkeypatch):
    monkeypatch.setattr(porcupine.shutil, "which", lambda _: None)
    verdict = porcupine.check(one_by_one(op("write", ["x", 1], None, UNKNOWN), op("read", ["x"], 1)))
    assert verdict.valid
    assert "by our own checker: Go is not installed" in verdict.summary


def test_registers_that_porcupine_gave_up_on_are_told(judge, monkeypatch):
    monkeypatch.setattr(porcupine, "ask", lambda *_: {"x": "Unknown"})
    verdict = porcupine.check(GOOD["swaps in a chain"])
    assert verdict.valid
    assert verdict.summary.endswith("(Porcupine gave up on 1 of them after 30 s)")
