"""The simulation finds what it is there to find: each bug is put in, and some seed must fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from herdpy.bookkeeper.metadata.znodes import ANY_VERSION
from herdpy_server.cluster import election
from herdpy_server.cluster.election import Ballot
from herdpy_server.cluster.lease import Lease, Term
from tests.cluster import election_scenarios as scenarios
from tests.cluster.election_scenarios import Stage
from tests.cluster.election_world import simulate


def _from_receipt(patch: pytest.MonkeyPatch) -> None:
    """The lease counts from when the proof came, not from when it was asked for."""
    prove = Lease.prove
    patch.setattr(Lease, "prove", lambda self, _sent_s, session: prove(self, self._clock(), session))


def _not_waited_out(patch: pytest.MonkeyPatch) -> None:
    """The predecessor's lease is not waited out."""
    patch.setattr(Ballot, "_over_s", staticmethod(lambda _vacancy, _found, made_s: made_s))


def _own_lease_only(patch: pytest.MonkeyPatch) -> None:
    """A longer lease of one before the predecessor is forgotten."""
    patch.setattr(Ballot, "_longest_lease", lambda self, _found: self._ground.renewal.lease_s)


def _released_too_soon(patch: pytest.MonkeyPatch) -> None:
    """A term is given back although one before it may still hold a lease."""
    patch.setattr(Term, "is_alone", property(lambda _self: True))


def _term_overwritten(patch: pytest.MonkeyPatch) -> None:
    """The term is written, not compared and set."""
    original = election.set_from

    async def overwrite(znodes: Any, path: str, data: bytes, version: int, **options: Any) -> int | None:
        first = await original(znodes, path, data, version, **options)
        return await znodes.set(path, data, ANY_VERSION) if first is None else first

    patch.setattr(election, "set_from", overwrite)


def _seen_gone_unchecked(patch: pytest.MonkeyPatch) -> None:
    """The wait counts from when somebody was seen gone, whoever it was."""
    patch.setattr(
        Ballot,
        "_over_s",
        staticmethod(lambda vacancy, found, made_s: min(vacancy.told_s, made_s) + found.lease_s),
    )


def _drift_ignored(patch: pytest.MonkeyPatch) -> None:
    """Holder and successor count alike, though their clocks do not."""
    patch.setattr("herdpy_server.cluster.lease.DRIFT", 0.0)


def _alone_not_asked(patch: pytest.MonkeyPatch) -> None:
    """An attestation counts although one before the attested leader may hold a lease."""
    original = Ballot._is_over
    patch.setattr(
        Ballot,
        "_is_over",
        lambda self, found: original(self, msgspec.structs.replace(found, alone=True)),
    )


def _instance_not_compared(patch: pytest.MonkeyPatch) -> None:
    """An attestation of any process of the node counts."""
    patch.setattr(election, "_attests", lambda _data, _path, _term: True)


def _kept_although_another_was_elected(patch: pytest.MonkeyPatch) -> None:
    """A term goes on in another session, whoever led meanwhile."""
    resume = Ballot.resume

    class Everything(set[str]):
        def __contains__(self, _tag: object) -> bool:
            return True

    async def resumed(self: Ballot, term: Term, position: Any) -> str | None:
        term.tags = Everything()
        return await resume(self, term, position)

    patch.setattr(Ballot, "resume", resumed)


BUGS = {
    scenarios.attested_before_it_was_alone: _alone_not_asked,
    scenarios.an_older_process_was_attested: _instance_not_compared,
    scenarios.elected_and_gone_while_it_was_away: _kept_although_another_was_elected,
    scenarios.answered_late: _from_receipt,
    scenarios.clocks_apart: _drift_ignored,
    scenarios.a_short_term_between: _own_lease_only,
    scenarios.given_back_too_soon: _released_too_soon,
    scenarios.cut_off_between_the_steps: _term_overwritten,
    scenarios.a_leader_nobody_saw: _seen_gone_unchecked,
}


@pytest.mark.parametrize("scenario", BUGS, ids=[scenario.__name__ for scenario in BUGS])
def test_a_scenario_finds_its_bug(
    scenario: Callable[[Stage], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    BUGS[scenario](monkeypatch)
    assert Stage().run(scenario), BUGS[scenario].__doc__


def test_random_runs_find_that_the_predecessor_is_not_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _not_waited_out(monkeypatch)
    assert any(simulate(seed).violations for seed in range(10))


def test_random_runs_find_a_lease_checked_when_the_transaction_began() -> None:
    assert any(simulate(seed, checks_first=True).violations for seed in range(20))


def test_an_attestation_of_a_living_process_is_found() -> None:
    found = Stage().run(scenarios.a_living_process_is_attested)
    assert any("leases valid at once" in one for one in found)
    assert any("answers" in one for one in found)  # a read that is older than what was acknowledged


def test_random_runs_find_attestations_of_living_processes() -> None:
    assert any("answers" in one for seed in range(20) for one in simulate(seed, lies=True).violations)


def test_random_runs_find_a_read_that_an_earlier_entry_confirms() -> None:
    assert any(simulate(seed, confirms_first=True).violations for seed in range(20))
