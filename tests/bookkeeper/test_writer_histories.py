"""Hundreds of random histories of a writer, and proof that they catch the bugs they are for."""

from __future__ import annotations

import pytest

from herdpy.bookkeeper.write.add import Add
from herdpy.bookkeeper.write.ensemble_change import EnsembleChange
from herdpy.bookkeeper.write.pipeline import Pipeline
from tests.bookkeeper.writer_fakes import FENCED
from tests.bookkeeper.writer_histories import FencedHistory, History, play


@pytest.mark.parametrize("hundred", range(5))
def test_what_must_hold_holds(hundred):
    histories = [play(History, seed) for seed in range(hundred * 100, hundred * 100 + 100)]
    # Not only easy ones: ensembles changed, writers failed, most entries got through.
    assert sum(len(one.bench.store.now.metadata.segments) > 1 for one in histories) > 20
    assert sum(one.bench.writer.last_add_confirmed for one in histories) > 1000


@pytest.mark.parametrize("hundred", range(2))
def test_nothing_is_confirmed_after_a_fence(hundred):
    histories = [play(FencedHistory, seed) for seed in range(hundred * 100, hundred * 100 + 100)]
    assert sum(one.heard_at is not None for one in histories) > 50


def caught(kind, seeds=200):
    """The first broken promise, or None when all histories pass."""
    for seed in range(seeds):
        try:
            play(kind, seed)
        except AssertionError as failed:
            return str(failed).splitlines()[0]
    return None


real_use = Pipeline.use


def acks_of_replaced_bookies_stay(self, bookies, deadline_s):
    kept = [(add, add.acked) for add in self.pending]
    quorum, self._ack_quorum = self._ack_quorum, 1000
    real_use(self, bookies, deadline_s)
    self._ack_quorum = quorum
    for add, acked in kept:
        add.acked |= acked
    self.confirm()


def late_acks_of_replaced_bookies_count(self, bookie, status):
    pipeline = self.pipeline
    if status or bookie in pipeline.bit_of:
        real_reply(self, bookie, status)
    else:
        self.acked |= self.targets & ~self.acked & -(self.targets & ~self.acked)
        pipeline.confirm()


real_reply = Add.on_add_reply


def completes_out_of_order(self):
    real_confirm(self)
    if not self.changing:
        for add in list(self.pending):
            if add.acked.bit_count() >= self._ack_quorum and not add.future.done():
                add.future.set_result(add.entry_id)


real_confirm = Pipeline.confirm


def resends_nothing(self, bookies, deadline_s):
    real_adopt = self._adopt
    real_adopt(bookies)
    self.failed = {}
    self.changing = False
    self.confirm()


def confirms_during_a_change(self):
    changing, self.changing = self.changing, False
    real_confirm(self)
    self.changing = changing


def segment_one_too_late(self, metadata, failed):
    wanted = real_without(self, metadata, failed)
    if wanted is None:
        return None
    return metadata.with_segment(self._pipeline.lac + 2, wanted.last_segment.members)


def segment_one_too_early(self, metadata, failed):
    wanted = real_without(self, metadata, failed)
    if wanted is None:
        return None
    first = max(self._pipeline.lac, metadata.last_segment.first_entry_id)
    return metadata.with_segment(first, wanted.last_segment.members)


def segment_is_always_appended(self, metadata, failed):
    wanted = real_without(self, metadata, failed)
    if wanted is None or wanted.last_segment.first_entry_id == 0:
        return wanted
    first = max(self._pipeline.lac + 1, metadata.last_segment.first_entry_id + 1)
    return metadata.with_segment(first, wanted.last_segment.members)


real_without = EnsembleChange._without


def ignores_the_fence(self, add, bookie, status):
    if status != FENCED:
        real_refused(self, add, bookie, status)


def ignores_failures(self, add, bookie, status):
    if status == FENCED:
        real_refused(self, add, bookie, status)


real_refused = Pipeline.refused


def carries_too_much(self, add):
    real_push(self, add)
    if not self._deferred:
        self.lac = self.pushed


real_push = Pipeline.push


def forgets_failures_during_a_change(self, add, bookie, status):
    if not self.changing or status == FENCED:
        real_refused(self, add, bookie, status)


BUGS = [
    (Pipeline, "use", acks_of_replaced_bookies_stay, History),
    (Add, "on_add_reply", late_acks_of_replaced_bookies_count, History),
    (Pipeline, "confirm", completes_out_of_order, History),
    (Pipeline, "confirm", confirms_during_a_change, History),
    (Pipeline, "use", resends_nothing, History),
    (EnsembleChange, "_without", segment_one_too_late, History),
    (EnsembleChange, "_without", segment_one_too_early, History),
    (EnsembleChange, "_without", segment_is_always_appended, History),
    (Pipeline, "refused", ignores_the_fence, FencedHistory),
    (Pipeline, "refused", ignores_failures, History),
    (Pipeline, "refused", forgets_failures_during_a_change, History),
    (Pipeline, "push", carries_too_much, History),
]


@pytest.mark.parametrize(("where", "name", "bug", "kind"), BUGS, ids=[bug.__name__ for _, _, bug, _ in BUGS])
def test_a_seeded_bug_is_caught(where, name, bug, kind, monkeypatch):
    monkeypatch.setattr(where, name, bug)
    found = caught(kind)
    assert found is not None
