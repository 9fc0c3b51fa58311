"""Bugs to be seeded into the writer: each replaces one method, and each must be caught."""

from __future__ import annotations

from herdpy.bookkeeper.write.pipeline import Add, Pipeline
from herdpy.bookkeeper.write.upkeep import EnsembleChange
from tests.bookkeeper.writer_fakes import FENCED

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


def carries_too_much(self, add, watch=None):
    real_push(self, add, watch)
    if not self._deferred:
        self.lac = self.pushed


real_push = Pipeline.push


def forgets_failures_during_a_change(self, add, bookie, status):
    if not self.changing or status == FENCED:
        real_refused(self, add, bookie, status)


BUGS = {
    "acks_of_replaced_bookies_stay": (Pipeline, "use", acks_of_replaced_bookies_stay),
    "late_acks_of_replaced_bookies_count": (Add, "on_add_reply", late_acks_of_replaced_bookies_count),
    "completes_out_of_order": (Pipeline, "confirm", completes_out_of_order),
    "confirms_during_a_change": (Pipeline, "confirm", confirms_during_a_change),
    "resends_nothing": (Pipeline, "use", resends_nothing),
    "segment_one_too_late": (EnsembleChange, "_without", segment_one_too_late),
    "segment_one_too_early": (EnsembleChange, "_without", segment_one_too_early),
    "segment_is_always_appended": (EnsembleChange, "_without", segment_is_always_appended),
    "ignores_the_fence": (Pipeline, "refused", ignores_the_fence),
    "ignores_failures": (Pipeline, "refused", ignores_failures),
    "forgets_failures_during_a_change": (Pipeline, "refused", forgets_failures_during_a_change),
    "carries_too_much": (Pipeline, "push", carries_too_much),
}
"""By name: the class, the method, and what takes its place."""


def seed_bug(monkeypatch, name):
    monkeypatch.setattr(*BUGS[name])
