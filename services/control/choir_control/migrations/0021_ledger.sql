-- The cost of every provider call. Amounts and ids only: no text, and no reference to `sessions`, so that
-- what was spent stays when a session or an agent is deleted.
CREATE TABLE {schema}.ledger (
    entry_id           text PRIMARY KEY,          -- session and revision of the event, or a report's id
    agent_id           text,                      -- null: calls that served several agents
    session_id         text,
    lane               text,
    job_id             text,
    kind               text NOT NULL
        CHECK (kind IN ('chat', 'memory', 'embedding', 'transcription', 'speech')),
    name               text NOT NULL,             -- the entry of config.json
    model              text NOT NULL,
    at                 timestamptz NOT NULL,
    day                date NOT NULL,             -- in the agent's time zone
    calls              integer NOT NULL DEFAULT 1,
    prompt_tokens      bigint NOT NULL DEFAULT 0,
    cached_tokens      bigint NOT NULL DEFAULT 0,
    cache_write_tokens bigint NOT NULL DEFAULT 0,
    completion_tokens  bigint NOT NULL DEFAULT 0,
    reasoning_tokens   bigint NOT NULL DEFAULT 0,
    audio_tokens       bigint NOT NULL DEFAULT 0,
    image_tokens       bigint NOT NULL DEFAULT 0,
    audio_seconds      numeric,
    characters         bigint,
    cost_usd           numeric(24, 12),           -- null: unknown
    computed_usd       numeric(24, 12),           -- by Choir's prices
    billed_usd         numeric(24, 12),           -- as the provider stated
    source             text NOT NULL
        CHECK (source IN ('config', 'table', 'free', 'provider', 'unknown', 'reserved')),
    CHECK ((cost_usd IS NULL) = (source = 'unknown'))
);
CREATE INDEX ledger_by_agent ON {schema}.ledger (agent_id, at);
CREATE INDEX ledger_by_time ON {schema}.ledger (at);
CREATE INDEX ledger_by_session ON {schema}.ledger (session_id) WHERE session_id IS NOT NULL;
-- Money that is reserved for model calls in flight. A row counts while its epoch lasts.
CREATE TABLE {schema}.budget_reservations (
    reservation text PRIMARY KEY,
    session_id  text NOT NULL,
    epoch       integer NOT NULL,
    agent_id    text NOT NULL,
    job_id      text,
    name        text NOT NULL,
    model       text NOT NULL,
    day         date NOT NULL,
    amount_usd  numeric(24, 12) NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL
);
-- What users allowed in addition to a budget, with /continue.
CREATE TABLE {schema}.budget_grants (
    session_id text NOT NULL,
    rev        bigint NOT NULL,
    agent_id   text NOT NULL,
    budget     text NOT NULL,
    amount_usd numeric(24, 12) NOT NULL,
    at         timestamptz NOT NULL,
    PRIMARY KEY (session_id, rev)
);
CREATE INDEX budget_grants_by_time ON {schema}.budget_grants (budget, at);
-- The calls of earlier versions: their tokens are known, their prices are not. JSON with the character NUL
-- cannot be read, and an agent's numbers may exceed every column.
WITH calls AS MATERIALIZED (
    SELECT session_id, rev, lane, type, payload, stored_at FROM {schema}.session_events
    WHERE type IN ('model_output', 'memory_compacted') AND position('\u0000' IN payload::text) = 0
), counted AS (
    SELECT c.*, left(c.payload ->> 'model', 200) AS model,
        least(greatest(coalesce((c.payload ->> 'prompt_tokens')::numeric, 0), 0), 1e12)::bigint AS prompt,
        least(greatest(coalesce((c.payload ->> 'cached_tokens')::numeric, 0), 0), 1e12)::bigint AS cached,
        least(greatest(coalesce((c.payload ->> 'completion_tokens')::numeric, 0), 0), 1e12)::bigint AS completion
    FROM calls AS c
)
INSERT INTO {schema}.ledger (entry_id, agent_id, session_id, lane, job_id, kind, name, model, at, day,
    prompt_tokens, cached_tokens, completion_tokens, cost_usd, source)
SELECT c.session_id || ':' || c.rev, s.agent_id, c.session_id,
    CASE WHEN c.lane IN ('edge', 'session') THEN c.lane WHEN c.lane LIKE 'core:%' THEN 'core' ELSE 'other' END,
    CASE WHEN c.lane LIKE 'core:%' AND c.type = 'model_output' THEN left(c.payload ->> 'turn_id', 200) END,
    'chat', '', c.model, c.stored_at, (c.stored_at AT TIME ZONE 'UTC')::date,
    c.prompt, c.cached, c.completion,
    CASE WHEN c.model = 'rehearsal' THEN 0 END, CASE WHEN c.model = 'rehearsal' THEN 'free' ELSE 'unknown' END
FROM counted AS c JOIN {schema}.sessions AS s USING (session_id)
WHERE coalesce(c.model, '') <> '';
