-- The broker's tables. Living tasks are few and hot, in broker.task; what is over is history, in broker.finished,
-- or a dead letter, in broker.dead. Every change of a task's state is one transaction. schema.py makes the schema.

-- How tasks of a type are tried again: after backoff_s * backoff_factor ^ (attempts - 1), at most backoff_most_s.
CREATE TABLE broker.task_type (
    name           TEXT PRIMARY KEY,
    max_attempts   INT NOT NULL DEFAULT 3 CHECK (max_attempts > 0),
    backoff_s      DOUBLE PRECISION NOT NULL DEFAULT 1 CHECK (backoff_s >= 0),
    backoff_factor DOUBLE PRECISION NOT NULL DEFAULT 2 CHECK (backoff_factor >= 1),
    backoff_most_s DOUBLE PRECISION NOT NULL DEFAULT 300 CHECK (backoff_most_s >= 0)
);

-- A group of users: its share of the workers is its weight among the groups that have work.
CREATE TABLE broker.task_group (
    name        TEXT PRIMARY KEY,
    weight      INT NOT NULL DEFAULT 1 CHECK (weight > 0),
    max_running INT CHECK (max_running > 0),
    paused      BOOLEAN NOT NULL DEFAULT false
);

-- A worker that has not been seen for lease_s is dead: another worker deletes its row, which fences it, and
-- gives its tasks back in the same transaction.
CREATE TABLE broker.worker (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       TEXT NOT NULL,
    capacity   INT NOT NULL CHECK (capacity > 0),
    lease_s    DOUBLE PRECISION NOT NULL CHECK (lease_s > 0),
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    seen_at    TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- state: blocked (it needs others, or its slot), delayed (until ready_at), ready, running.
CREATE TABLE broker.task (
    id             BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type           TEXT NOT NULL,
    group_name     TEXT NOT NULL,
    priority       INT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('blocked', 'delayed', 'ready', 'running')),
    ready_at       TIMESTAMPTZ NOT NULL,
    deadline       TIMESTAMPTZ,
    slot           TEXT,
    holds_slot     BOOLEAN NOT NULL DEFAULT false,
    needs          INT NOT NULL DEFAULT 0 CHECK (needs >= 0),
    is_needed      BOOLEAN NOT NULL DEFAULT false,
    batch          TEXT,
    attempts       INT NOT NULL DEFAULT 0,
    max_attempts   INT NOT NULL,
    worker         BIGINT,
    started_at     TIMESTAMPTZ,
    submitted_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    error          TEXT,
    payload        JSONB
);
CREATE INDEX task_ready ON broker.task (group_name, priority DESC, id) WHERE state = 'ready';
CREATE INDEX task_delayed ON broker.task (ready_at) WHERE state = 'delayed';
CREATE INDEX task_running ON broker.task (worker, id) WHERE state = 'running';
CREATE INDEX task_deadline ON broker.task (deadline) WHERE deadline IS NOT NULL;
CREATE UNIQUE INDEX task_slot ON broker.task (slot) WHERE holds_slot;
CREATE INDEX task_slot_queue ON broker.task (slot, id) WHERE slot IS NOT NULL AND NOT holds_slot;
CREATE INDEX task_batch ON broker.task (batch) WHERE batch IS NOT NULL;

CREATE TABLE broker.dependency (
    needs BIGINT NOT NULL,
    task  BIGINT NOT NULL REFERENCES broker.task ON DELETE CASCADE,
    PRIMARY KEY (needs, task)
);
CREATE INDEX dependency_task ON broker.dependency (task);

CREATE TABLE broker.finished (
    id           BIGINT PRIMARY KEY,
    type         TEXT NOT NULL,
    group_name   TEXT NOT NULL,
    outcome      TEXT NOT NULL CHECK (outcome IN ('done', 'cancelled', 'dead')),
    attempts     INT NOT NULL,
    batch        TEXT,
    worker       BIGINT,
    submitted_at TIMESTAMPTZ NOT NULL,
    started_at   TIMESTAMPTZ,
    finished_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    result       JSONB
);
-- Rates and histograms read along it; it adds a tenth to what a row of history costs.
CREATE INDEX finished_at ON broker.finished (finished_at);
CREATE INDEX finished_batch ON broker.finished (batch) WHERE batch IS NOT NULL;

CREATE TABLE broker.dead (
    id           BIGINT PRIMARY KEY,
    type         TEXT NOT NULL,
    group_name   TEXT NOT NULL,
    priority     INT NOT NULL,
    slot         TEXT,
    batch        TEXT,
    attempts     INT NOT NULL,
    max_attempts INT NOT NULL,
    reason       TEXT NOT NULL CHECK (reason IN ('failed', 'deadline', 'worker died', 'dependency')),
    error        TEXT,
    submitted_at TIMESTAMPTZ NOT NULL,
    died_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    payload      JSONB
);
CREATE INDEX dead_batch ON broker.dead (batch) WHERE batch IS NOT NULL;

CREATE TABLE broker.schedule (
    name       TEXT PRIMARY KEY,
    cron       TEXT,
    every_s    DOUBLE PRECISION CHECK (every_s > 0),
    timezone   TEXT NOT NULL DEFAULT 'UTC',
    type       TEXT NOT NULL REFERENCES broker.task_type,
    group_name TEXT NOT NULL DEFAULT 'default',
    priority   INT NOT NULL DEFAULT 0,
    slot       TEXT,
    payload    JSONB,
    paused     BOOLEAN NOT NULL DEFAULT false,
    next_at    TIMESTAMPTZ NOT NULL,
    last_at    TIMESTAMPTZ,
    CHECK ((cron IS NULL) <> (every_s IS NULL))
);
CREATE INDEX schedule_due ON broker.schedule (next_at) WHERE NOT paused;
