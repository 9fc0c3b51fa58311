"""Small bugs, one for each thing that must hold: each is put in by a test that must then fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import lmdb
import pytest

from herdpy.log.file_ledger import FileLedgerReader, FileLedgerWriter
from herdpy.log.file_log import FileLog
from herdpy.log.lsn import LSN, START
from herdpy_server.sessions.answer_checks import AnswerChecks
from herdpy_server.sessions.execution import Execution
from herdpy_server.store import Store, Workspace
from herdpy_server.store.disk import Disk
from herdpy_server.store.layers import Memory
from herdpy_server.tablespace import Checkpointer, LockTable, Tablespace

Patch = pytest.MonkeyPatch
Bug = Callable[[Patch], None]


def applies_before_it_is_durable(patch: Patch) -> None:
    write, acknowledge = FileLog._write, Tablespace.acknowledge

    def early(self, group):
        with self._io:
            self._encode(self._writable(), group)  # gives the appends their positions
            self._group._acknowledge(group, None)
        write(self, group)

    def once(self, appends, error):
        if self._pending and self._pending[0].append is appends[0]:
            acknowledge(self, appends, error)

    patch.setattr(FileLog, "_write", early)
    patch.setattr(Tablespace, "acknowledge", once)


def answers_readers_at_once(patch: Patch) -> None:
    patch.setattr(Tablespace, "durable_of", lambda self, position: None)


def tells_errors_at_once(patch: Patch) -> None:
    async def confirm(self, error, workspace):
        pass

    patch.setattr(AnswerChecks, "confirm", confirm)


def forgets_who_read_what_was_lost(patch: Patch) -> None:
    patch.setattr(Workspace, "rests_on_loss", False)


def answers_writers_at_once(patch: Patch) -> None:
    durable = AnswerChecks.durable

    async def at_once(self, append, workspace, **options):
        if append is None:
            await durable(self, append, workspace)

    patch.setattr(AnswerChecks, "durable", at_once)


def releases_locks_at_the_end_of_a_statement(patch: Patch) -> None:
    run = Execution.run

    async def eager(self, transaction, *args, **options):
        try:
            return await run(self, transaction, *args, **options)
        finally:
            self.block.tablespace.locks.release_all(transaction)

    patch.setattr(Execution, "run", eager)


def checks_no_locks(patch: Patch) -> None:
    for method in ("acquire", "acquire_many", "acquire_table"):
        patch.setattr(LockTable, method, lambda *args: None)


def never_gives_locks_back_after_a_rollback(patch: Patch) -> None:
    patch.setattr(Tablespace, "rollback", lambda self, transaction: None)


def applies_transaction_by_transaction(patch: Patch) -> None:
    apply_entry = Store.apply_entry

    def one_by_one(self, lsn, transactions, *told):
        for nth, one in enumerate(transactions):
            if nth and not self._flushing.locked():
                with contextlib.suppress(lmdb.Error):
                    self.flush()  # the checkpointer's thread comes in between
            apply_entry(self, lsn, [one], *(told if nth == 0 else ()))

    patch.setattr(Store, "apply_entry", one_by_one)


def keeps_what_is_pending_when_the_log_fails(patch: Patch) -> None:
    patch.setattr(Store, "drop_pending", lambda self: None)


def skips_fdatasync(patch: Patch) -> None:
    patch.setattr(FileLedgerWriter, "sync", lambda self: None)


def forgets_to_cut_a_failed_write(patch: Patch) -> None:
    patch.setattr(FileLog, "_undo", lambda self, ledger, *, keep: "not done")


def undoes_no_statement(patch: Patch) -> None:
    patch.setattr(Workspace, "undo", lambda self, mark: None)


def undoes_rows_but_not_records(patch: Patch) -> None:
    undo = Workspace.undo

    def half(self, mark):
        records = list(self.records)
        undo(self, mark)
        self.records[:] = records

    patch.setattr(Workspace, "undo", half)


def checkpoints_a_later_position(patch: Patch) -> None:
    write_meta = Disk.write_meta

    def later(self, txn, applied, *rest):
        write_meta(self, txn, LSN(applied.ledger_id, applied.entry_id + 1), *rest)

    patch.setattr(Disk, "write_meta", later)


def checkpoints_an_earlier_position(patch: Patch) -> None:
    write_meta = Disk.write_meta

    def earlier(self, txn, applied, *rest):
        write_meta(self, txn, START if applied == START else self.durable, *rest)

    patch.setattr(Disk, "write_meta", earlier)


def trims_what_is_not_in_the_store(patch: Patch) -> None:
    def trim(self, keep_bytes):
        self._log.roll()
        return self._log.trim(self._log.lac)

    def checkpoint(self, *, trim):
        return self._trim(0) if trim else self._store.flush() and []

    patch.setattr(Checkpointer, "_trim", trim)
    patch.setattr(Checkpointer, "checkpoint", checkpoint)


def lets_go_of_the_memtable_before_lmdb_has_it(patch: Patch) -> None:
    freeze = Memory.freeze

    def hasty(self):
        frozen = freeze(self)
        for db in frozen:
            self._set_applied(db, ())
        return dict.fromkeys(frozen, ())

    patch.setattr(Memory, "freeze", hasty)


def forgets_index_entries_when_it_applies(patch: Patch) -> None:
    from herdpy_server.store.apply import Applier

    patch.setattr(Applier, "_remove_entries", lambda self, ops, key: None)


def does_not_check_the_chain(patch: Patch) -> None:
    def follow(self, entry, end):
        self.last, self.crc, self.offset = entry.header.lsn, entry.header.crc, end

    patch.setattr(FileLedgerReader, "follow", follow)


SIMULATED: list[Bug] = [
    applies_before_it_is_durable,
    answers_readers_at_once,
    tells_errors_at_once,
    forgets_who_read_what_was_lost,
    answers_writers_at_once,
    releases_locks_at_the_end_of_a_statement,
    checks_no_locks,
    never_gives_locks_back_after_a_rollback,
    applies_transaction_by_transaction,
    keeps_what_is_pending_when_the_log_fails,
    skips_fdatasync,
    forgets_to_cut_a_failed_write,
    undoes_no_statement,
    undoes_rows_but_not_records,
    checkpoints_a_later_position,
    checkpoints_an_earlier_position,
    trims_what_is_not_in_the_store,
    lets_go_of_the_memtable_before_lmdb_has_it,
    forgets_index_entries_when_it_applies,
]
"""Bugs that the simulation must catch."""
