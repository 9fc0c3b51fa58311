"""A history whose database was lost with every disk, and restored: what must be there, and how much is lost.

Layer: beside `judging`, below `judged` and the runner. A restore ends at some position of the log, and the
commit time there says for each operation which of two cases it is:

    answered before   its changes, and all that it saw, were committed earlier, so they are in the archive
    answered later    it may be there or not, as if its answer had never come; what it read is of no account

So the judges of all other drills judge the restored database, too: of the history as ``as_restored`` gives
it. A restore shows a beginning of the log, which is more than that: ``check_beginning`` says of inserts
that none is missing which was acknowledged before one that is there was called.
"""

from __future__ import annotations

from dataclasses import replace

from herdpy.drill.history import ClientOperation, DrillHistory, Json, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict

RESTORED = "restored"
"""The kind of the event with which the lost database's part of a history is over; its details have ``end_s``,
the moment of the last commit that was restored, on the history's clock."""
_LATER = "lost: answered after the last commit that was restored"
BEHIND_S = 5.0
"""How much more than the archive's interval may be lost on a busy machine."""


def as_restored(history: DrillHistory) -> DrillHistory:
    """The history as judges are to see it; the same where nothing was restored."""
    moment = _moment(history)
    if moment is None:
        return history
    restored_s, end_s = moment
    operations = [
        _unknown(one) if one.called_s < restored_s and one.ended_s >= end_s and _done(one) else one
        for one in history
    ]
    return DrillHistory(operations, history.events)


def _done(one: ClientOperation) -> bool:
    return one.final is OperationOutcome.DONE


def _unknown(one: ClientOperation) -> ClientOperation:
    outcome = OperationOutcome.UNKNOWN
    return replace(one, outcome=outcome, result=None, error=_LATER, resolved=None, resolved_s=None)


def check_beginning(history: DrillHistory) -> Verdict:
    """Judge "insert" and the last "rows" of a restored history: what is there is a beginning of the log."""
    inserts, present = _inserts(history)
    newest = max((one.called_s for one in inserts if _id(one) in present), default=0.0)
    anomalies = [
        Anomaly("hole", f"insert {_id(one)} was acknowledged before one that is there was called", [one])
        for one in inserts
        if one.outcome is OperationOutcome.DONE and one.returned_s < newest and _id(one) not in present
    ]
    return Verdict.of(
        "a beginning of the log", anomalies, f"{len(present)} of {len(inserts)} inserts are there"
    )


def check_loss(history: DrillHistory, interval_s: float, took_s: float) -> Verdict:
    """How much was lost: from the last commit that is there to the last answer, and its acknowledged inserts.

    Args:
        interval_s: of the archive.
        took_s: what the restore took.
    """
    restored_s, end_s = _moment(history) or (0.0, 0.0)
    inserts, present = _inserts(history)
    acknowledged = [one for one in inserts if one.outcome is OperationOutcome.DONE]
    missing = [one for one in acknowledged if _id(one) not in present]
    answers = (one.returned_s for one in history if one.outcome is OperationOutcome.DONE)
    lost_s = max(0.0, max((at_s for at_s in answers if at_s < restored_s), default=0.0) - end_s)
    text = (
        f"restored in {took_s:.1f} s; the last {lost_s * 1000:,.0f} ms are lost, with {len(missing):,} of"
        f" {len(acknowledged):,} acknowledged inserts"
    )
    found = []
    if lost_s > interval_s + BEHIND_S:
        found.append(Anomaly("archive behind", f"{lost_s:.1f} s are lost, the interval is {interval_s:g} s"))
    return Verdict.of("loss", found, text)


def _moment(history: DrillHistory) -> tuple[float, float] | None:
    for event in history.events:
        end_s = event.details.get("end_s")
        if event.kind == RESTORED and isinstance(end_s, (int, float)):
            return event.at_s, float(end_s)
    return None


def _inserts(history: DrillHistory) -> tuple[list[ClientOperation], set[str]]:
    """All inserts, and the ids that the last look has found."""
    return list(history.of("insert")), {str(one) for one in _last_rows(history)}


def _last_rows(history: DrillHistory) -> list[Json]:
    looks = [one.result for one in history.of("rows") if one.outcome is OperationOutcome.DONE]
    return looks[-1] if looks and isinstance(looks[-1], list) else []


def _id(insert: ClientOperation) -> str:
    return str(insert.arguments[0]) if isinstance(insert.arguments, list) and insert.arguments else ""
