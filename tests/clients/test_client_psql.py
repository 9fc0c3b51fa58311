"""The real psql shows the library as it shows PostgreSQL's: ENUMs, sequences, views, schemas, comments."""

from __future__ import annotations

from pathlib import Path

from tests.server.postgres_tools import psql
from tests.support.server_process import RunningServer

SAME = r"""
\d lib_author
\d lib_loan
\d lib_cheap
\d lib_book_lower
\d lib_number
\d lib_author_id_seq
\d lib_loan_number_seq
\d lib_store.crate
\d lib_store.crate_label
\d+ lib_store.crate
\dt lib_*
\dt lib_store.*
\di lib_*
\ds lib_*
\dv lib_*
\dT lib_*
\dT+ lib_state
\dd
\df
\dp lib_book
\dx nosuch
\des
\dn+ lib_store
\dp lib_*
\dv+ lib_cheap
\df lib*
\dC nosuch
\do nosuch
\da nosuch
\dc nosuch
\d+ lib_author
\det
\dew
\deu
\dRp
\ddp
\drds
\dy
\dD
\dE
\dm
\dP
\dX
\sf nosuch
SELECT id, title FROM lib_book \gdesc
SELECT 'lib_book'::regclass, 'lib_store.crate'::regclass, 'lib_state'::regtype, 'lib_state[]'::regtype;
SELECT pg_get_indexdef('lib_store.crate_label'::regclass);
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname LIKE 'lib%' ORDER BY 1;
SELECT column_name, column_default, udt_name FROM information_schema.columns
  WHERE table_name = 'lib_author' ORDER BY ordinal_position;
SELECT enum_range(NULL::lib_state);
\timing on
\timing off
SELECT 'CREATE TABLE lib_made (id int)' UNION ALL SELECT 'DROP TABLE lib_made' \gexec
\set size 2
SELECT :size AS two \gset
\echo :two
"""
"""Without ``\\d`` of lib_book, which has a column more in HerdPy, and without what lists databases."""


ANSWERED = r"""
\du+
\ds+ lib_*
\dT+ lib_*
\df upper
\dx
\db
\dt+ lib_*
\di+ lib_*
\dL
\dF
\dFd
\dAc btree
\l+
\sv lib_cheap
"""
"""What shows sizes, what is built in, or HerdPy's own text."""


def test_other_commands_are_answered(clients_server: RunningServer, tmp_path: Path) -> None:
    done = psql(clients_server.port, ANSWERED, "-v", "ON_ERROR_STOP=1", cwd=tmp_path)
    assert done.stderr == ""
    assert done.returncode == 0
    for shown in (
        "List of roles",
        "lib_author_id_seq",
        "lib_state",
        "herdpy",
        "pg_default",
        "VIEW public.lib_cheap",
    ):
        assert shown in done.stdout


def test_what_is_shown_is_what_is_shown_of_postgres(
    clients_server: RunningServer, clients_postgres: str, tmp_path: Path
) -> None:
    ours = psql(clients_server.port, SAME, "-a", cwd=tmp_path)
    peer = psql(5432, SAME, "-a", cwd=tmp_path, host=clients_postgres, database="clients")
    assert "Owned by: public.lib_loan.number" in peer.stdout
    assert ours.stdout == peer.stdout
    assert ours.stderr == peer.stderr
