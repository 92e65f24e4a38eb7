-- Schedules of reminders and prompts, and their runs.

CREATE TABLE {schema}.schedules (
    schedule_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    revision     bigint NOT NULL DEFAULT 0,        -- a change applies only to the revision it was made for
    agent_id     text NOT NULL,
    dm           text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('remind', 'prompt')),
    body         text NOT NULL,
    timing       text NOT NULL CHECK (timing IN ('in', 'at', 'every', 'cron')),
    value        text NOT NULL,
    zone         text NOT NULL,
    anchor       timestamptz NOT NULL,             -- the moment, or the start of an interval
    state        text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'ended')),
    note         text NOT NULL DEFAULT '',
    catch_up     text NOT NULL CHECK (catch_up IN ('once', 'skip', 'all')),
    grace        interval NOT NULL,
    overlap      text NOT NULL CHECK (overlap IN ('skip', 'wait', 'allow')),
    jitter       interval NOT NULL,
    max_failures integer NOT NULL CHECK (max_failures > 0),
    failures     integer NOT NULL DEFAULT 0,       -- consecutive ones
    failed_at    timestamptz,
    next_due     timestamptz,                      -- the first due time without a final run
    start_at     timestamptz,                      -- next_due with its jitter
    planned_at   timestamptz NOT NULL,             -- on control's clock
    created_by   text NOT NULL,
    words        text NOT NULL DEFAULT '',
    request_key  text UNIQUE,
    created_at   timestamptz NOT NULL
);
CREATE INDEX schedules_active ON {schema}.schedules (start_at) WHERE state = 'active';
CREATE INDEX schedules_by_agent ON {schema}.schedules (agent_id, schedule_id);

CREATE TABLE {schema}.schedule_runs (
    run_id      text PRIMARY KEY,                  -- also the inbox_id of a prompt
    schedule_id bigint NOT NULL REFERENCES {schema}.schedules ON DELETE CASCADE,
    due_at      timestamptz NOT NULL,
    state       text NOT NULL CHECK (state IN
                    ('due', 'running', 'done', 'failed', 'missed', 'skipped', 'paused')),
    detail      text NOT NULL DEFAULT '',
    manual      boolean NOT NULL DEFAULT false,
    outbox_id   bigint,                            -- the message of a reminder
    created_at  timestamptz NOT NULL,
    started_at  timestamptz,
    ended_at    timestamptz,
    UNIQUE (schedule_id, due_at)
);
CREATE INDEX schedule_runs_open ON {schema}.schedule_runs (schedule_id) WHERE state IN ('due', 'running');
CREATE INDEX schedule_runs_ended ON {schema}.schedule_runs (ended_at) WHERE ended_at IS NOT NULL;
