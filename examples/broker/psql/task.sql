-- One task of a group and a type, by psql: claimed, worked on, finished. worker.sh runs it with the variables
-- worker, group, type and work (a file of SQL, which has :task and :'payload'). It prints none, done or lost.
-- ON_ERROR_STOP is off where a statement may have no row, which \gset takes for an error: variables tell then.
\set ON_ERROR_STOP on
\set has_task false
\set is_open false

-- A group that is paused gives none. One with max_running is counted under a lock: that is for other workers.
SELECT count(*) = 0 AS is_open FROM broker.task_group
WHERE name = :'group' AND (paused OR max_running IS NOT NULL) \gset
\if :is_open
    \set ON_ERROR_STOP off
    UPDATE broker.task SET state = 'running', worker = :worker, attempts = attempts + 1, started_at = now()
    WHERE id IN (
        SELECT id FROM broker.task
        WHERE group_name = :'group' AND state = 'ready' AND type = :'type'
          AND (deadline IS NULL OR deadline > now())
        ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING true AS has_task, id AS task, coalesce(payload::text, 'null') AS payload \gset
    \set ON_ERROR_STOP on
\endif
\if :has_task
\else
    \echo none
    \quit
\endif

BEGIN;
\include :work

-- The fence: no row when the worker was given up meanwhile, or the task cancelled. Then nothing was done.
\set is_held false
\set slot ''
\set is_needed false
\set ON_ERROR_STOP off
DELETE FROM broker.task WHERE id = :task AND worker = :worker AND state = 'running'
RETURNING true AS is_held, type AS its_type, attempts, coalesce(batch, '') AS batch, submitted_at, started_at,
          CASE WHEN holds_slot THEN slot ELSE '' END AS slot, is_needed \gset
\set ON_ERROR_STOP on
\if :is_held
\else
    ROLLBACK;
    \echo lost
    \quit
\endif
INSERT INTO broker.finished (id, type, group_name, outcome, attempts, batch, worker, submitted_at, started_at)
VALUES (:task, :'its_type', :'group', 'done', :attempts, nullif(:'batch', ''), :worker,
        :'submitted_at', :'started_at');

-- What follows, as in herdpy_broker/ending.py: the slot passes to the oldest that waits, dependents go on.
SELECT :'slot' <> '' AS had_slot \gset
\if :had_slot
    \set next 0
    \set ON_ERROR_STOP off
    SELECT id AS next FROM broker.task WHERE slot = :'slot' AND NOT holds_slot
    ORDER BY id LIMIT 1 FOR UPDATE \gset
    \set ON_ERROR_STOP on
    UPDATE broker.task
    SET holds_slot = true,
        state = CASE WHEN needs > 0 THEN 'blocked' WHEN ready_at > now() THEN 'delayed' ELSE 'ready' END
    WHERE id = :next RETURNING pg_notify('broker', group_name);
\endif
\if :is_needed
    UPDATE broker.task
    SET needs = needs - 1,
        state = CASE WHEN needs > 1 OR slot IS NOT NULL AND NOT holds_slot THEN 'blocked'
                     WHEN ready_at > now() THEN 'delayed' ELSE 'ready' END
    WHERE id IN (SELECT task FROM broker.dependency WHERE needs = :task)
    RETURNING pg_notify('broker', group_name);
    DELETE FROM broker.dependency WHERE needs = :task;
\endif
COMMIT;
\echo done
