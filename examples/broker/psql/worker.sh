#!/bin/sh
# A worker of the broker in plain psql: worker.sh GROUP TYPE WORK.sql [once]
#
# WORK.sql is the work of one task: statements that use :task (its id) and :'payload' (its JSON). They and the
# finish are one transaction. PGHOST, PGPORT, PGUSER ... name the server, as for psql. With "once" it ends when
# no task is ready. LEASE_S is its lease in whole seconds.
#
# It does no upkeep, and takes no task of a group that has max_running. When a task's work fails, it gives its
# row up and registers anew: the next worker that does upkeep gives the task back, or buries it ("worker died").
set -eu

if [ $# -lt 3 ] || [ ! -r "$3" ]; then
    echo "usage: worker.sh GROUP TYPE WORK.sql [once]" >&2
    exit 2
fi
group=$1 type=$2 work=$3 once=${4:-}
here=$(dirname "$0")
lease_s=${LEASE_S:-10}
worker=0 beats=''

query() { # in a process of its own each time: a pipeline, or in the background
    exec psql -X -q -A -t -v ON_ERROR_STOP=1 -v lease_s="$lease_s" -v worker="$worker" "$@"
}

register() {
    worker=$(query <<'SQL'
INSERT INTO broker.worker (name, capacity, lease_s) VALUES ('psql', 1, :lease_s) RETURNING id;
SQL
    )
    # Beats come from a process of their own, so that a long task does not keep them from coming.
    query -v pause_s="$((lease_s / 4 + 1))" >/dev/null <<'SQL' &
UPDATE broker.worker SET seen_at = now() WHERE id = :worker \watch :pause_s
SQL
    beats=$!
}

leave() {
    [ -n "$beats" ] || return 0
    kill "$beats" 2>/dev/null || true
    wait "$beats" 2>/dev/null || true
    beats=''
    echo "DELETE FROM broker.worker WHERE id = :worker;" | query
}

trap leave EXIT
trap 'exit 0' TERM INT
register
while true; do
    outcome=$(query -v group="$group" -v type="$type" -v work="$work" -f "$here/task.sql" | tail -n 1)
    case "$outcome" in
        done) ;;
        none)
            [ "$once" != once ] || exit 0
            sleep 1
            ;;
        *)
            leave
            register
            ;;
    esac
done
