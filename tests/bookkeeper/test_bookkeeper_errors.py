"""Errors: one class a status, what is known of the failed operation, where it happened."""

from __future__ import annotations

import inspect
import pickle

import pytest

from herdpy.bookkeeper import errors
from herdpy.bookkeeper.errors import TIMED_OUT, UNAVAILABLE, BookKeeperError, Outcome, error_of
from herdpy.bookkeeper.wire.protocol import ReplyStatus

CLASSES = [
    member for _, member in inspect.getmembers(errors, inspect.isclass) if issubclass(member, BookKeeperError)
]


@pytest.mark.parametrize("status", [status for status in ReplyStatus if status is not ReplyStatus.EOK])
def test_every_status_has_a_class_of_its_own(status: ReplyStatus):
    error = error_of(status, bookie="b1:3181", ledger_id=7, entry_id=3)
    assert type(error) is not errors.UnknownStatusError
    assert error.code == status
    assert (error.bookie, error.ledger_id, error.entry_id) == ("b1:3181", 7, 3)
    others = [type(error_of(other)) for other in ReplyStatus if other not in (ReplyStatus.EOK, status)]
    assert type(error) not in others


def test_an_unknown_status_keeps_its_number():
    error = error_of(599, ledger_id=7)
    assert isinstance(error, errors.UnknownStatusError)
    assert error.status == 599
    assert error.outcome is Outcome.UNKNOWN
    assert str(error) == "the bookie answered with an unknown status: 599 (ledger 7)"


def test_the_pseudo_statuses_are_understood():
    assert type(error_of(TIMED_OUT)) is errors.TimedOutError
    assert type(error_of(UNAVAILABLE)) is errors.BookieUnavailableError


def test_success_is_no_error():
    with pytest.raises(ValueError, match="EOK"):
        error_of(ReplyStatus.EOK)


def test_no_two_classes_share_a_code():
    codes = [cls.code for cls in CLASSES if cls.code is not None]
    # A subclass that sets no code of its own would inherit its parent's.
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    "cls",
    [
        errors.LedgerFencedError,
        errors.LedgerClosedError,
        errors.TimedOutError,
        errors.BookieUnavailableError,
        errors.NotEnoughBookiesError,
        errors.ZooKeeperUnavailableError,
        errors.SessionExpiredError,
        errors.ProtocolError,
        errors.BookieIOError,
    ],
)
def test_what_can_meet_an_operation_in_flight_promises_nothing_by_default(cls: type[BookKeeperError]):
    assert cls().outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("cls", [errors.EntryTooLargeError, errors.BackPressureError])
def test_what_is_found_before_anything_is_sent_says_so(cls: type[BookKeeperError]):
    assert cls().outcome is Outcome.NOT_DONE


@pytest.mark.parametrize("cls", CLASSES)
def test_the_raiser_can_know_better_and_the_error_survives_pickling(cls: type[BookKeeperError]):
    for outcome in Outcome:
        error = cls("because", outcome=outcome, bookie="b", ledger_id=1, entry_id=0)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is cls
        assert again.outcome is outcome
        assert str(again) == "because (bookie b, ledger 1, entry 0)"


def test_a_wrong_password_is_a_matter_of_authorisation():
    assert issubclass(errors.WrongPasswordError, errors.UnauthorizedError)
