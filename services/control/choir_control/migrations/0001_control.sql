-- Sessions, their logs, and what travels in and out of them (spec 23.1).

CREATE TABLE {schema}.config_versions (
    version    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest     text NOT NULL,
    read_at    timestamptz NOT NULL DEFAULT now()
);

-- status 'crashed' is a live session between two epochs: it will be resumed, or abandoned.
CREATE TABLE {schema}.sessions (
    session_id        text PRIMARY KEY,
    agent_id          text NOT NULL,
    status            text NOT NULL CHECK (status IN
                          ('starting', 'active', 'stopping', 'stopped', 'crashed', 'abandoned')),
    epoch             integer NOT NULL CHECK (epoch >= 1),
    token_sha256      bytea,                      -- null: no token is valid
    head_rev          bigint NOT NULL DEFAULT 0,
    head_hash         text NOT NULL,
    continues         text REFERENCES {schema}.sessions,
    workspace         text NOT NULL,
    llm               text NOT NULL,
    dm                text NOT NULL,
    gateway           text NOT NULL,
    resumes           integer NOT NULL DEFAULT 0, -- since the last completed turn
    resume_at         timestamptz,                -- null: only an operator resumes it
    last_heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    epoch_started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at          timestamptz,
    end_reason        text
) WITH (fillfactor = 70);

-- the singleton rule of spec 6.4, kept by the database
CREATE UNIQUE INDEX sessions_one_live_per_agent ON {schema}.sessions (agent_id)
    WHERE status IN ('starting', 'active', 'stopping', 'crashed');
CREATE INDEX sessions_live_dm ON {schema}.sessions (dm)
    WHERE status IN ('starting', 'active', 'stopping', 'crashed');
CREATE INDEX sessions_by_agent ON {schema}.sessions (agent_id, started_at);

-- every token ever given, so that an old epoch's is told from a forged one
CREATE TABLE {schema}.session_epochs (
    session_id   text NOT NULL REFERENCES {schema}.sessions,
    epoch        integer NOT NULL,
    token_sha256 bytea NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (session_id, epoch)
);

CREATE TABLE {schema}.leases (
    resource    text PRIMARY KEY,                 -- 'workspace:main', 'dm:console'
    session_id  text NOT NULL REFERENCES {schema}.sessions,
    agent_id    text NOT NULL,
    acquired_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX leases_by_session ON {schema}.leases (session_id);

-- payload is json, not jsonb: jsonb rewrites numbers, and the stored text must hash as it was hashed
CREATE TABLE {schema}.session_events (
    session_id text NOT NULL REFERENCES {schema}.sessions,
    rev        bigint NOT NULL,
    lane       text NOT NULL,
    type       text NOT NULL,
    payload    json NOT NULL,
    at         text NOT NULL,
    hash_prev  text NOT NULL,
    hash       text NOT NULL,
    stored_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, rev)
);

CREATE TABLE {schema}.inbox (
    seq          bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    inbox_id     text PRIMARY KEY,
    gateway      text NOT NULL,
    update_id    text NOT NULL,
    dm           text NOT NULL,
    text         text NOT NULL,
    sent_at      timestamptz NOT NULL,
    received_at  timestamptz NOT NULL DEFAULT now(),
    session_id   text REFERENCES {schema}.sessions, -- whose log holds its user_msg
    consumed_rev bigint,
    answered_rev bigint,
    closed_at    timestamptz,                       -- will not be answered; the user was told
    UNIQUE (gateway, update_id)
);
CREATE INDEX inbox_open_by_session ON {schema}.inbox (session_id)
    WHERE answered_rev IS NULL AND closed_at IS NULL;
CREATE INDEX inbox_waiting_by_dm ON {schema}.inbox (dm, seq)
    WHERE session_id IS NULL AND closed_at IS NULL;

-- a user's message waits for whichever session holds its dm; all else is for one session
CREATE TABLE {schema}.signals (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dm         text,
    session_id text REFERENCES {schema}.sessions,
    body       json NOT NULL,
    inbox_id   text UNIQUE REFERENCES {schema}.inbox,
    created_at timestamptz NOT NULL DEFAULT now(),
    done_at    timestamptz,
    CHECK (num_nonnulls(dm, session_id) = 1)
);
CREATE INDEX signals_open_by_dm ON {schema}.signals (dm, seq) WHERE done_at IS NULL;
CREATE INDEX signals_open_by_session ON {schema}.signals (session_id, seq) WHERE done_at IS NULL;

CREATE TABLE {schema}.outbox (
    outbox_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dm             text NOT NULL,
    gateway        text NOT NULL,
    agent_id       text NOT NULL,
    session_id     text NOT NULL REFERENCES {schema}.sessions,
    rev            bigint NOT NULL,
    kind           text NOT NULL,
    text           text NOT NULL,
    answers        text,
    at             timestamptz NOT NULL,
    status         text NOT NULL DEFAULT 'waiting'
                       CHECK (status IN ('waiting', 'sending', 'delivered', 'undeliverable')),
    maybe_repeated boolean NOT NULL DEFAULT false,
    attempts       integer NOT NULL DEFAULT 0,
    detail         text NOT NULL DEFAULT '',
    finished_at    timestamptz,
    UNIQUE (session_id, rev)
) WITH (fillfactor = 80);
CREATE INDEX outbox_by_dm ON {schema}.outbox (dm, outbox_id);
CREATE INDEX outbox_open ON {schema}.outbox (dm, outbox_id) WHERE status IN ('waiting', 'sending');

CREATE TABLE {schema}.pending_approvals (
    approval_id  text PRIMARY KEY,
    session_id   text NOT NULL REFERENCES {schema}.sessions,
    agent_id     text NOT NULL,
    call_id      text NOT NULL,
    request_type text NOT NULL,
    payload      json NOT NULL,
    status       text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'approved', 'rejected')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    resolved_at  timestamptz,
    UNIQUE (session_id, call_id)
);
