-- What users think of an agent's conduct in a session. Apart from its memory: no search, reminder or summary reads it.
-- It has no text: the words are those of the turn, and are gone when the turn is.
CREATE TABLE {schema}.session_feedback (
    agent_id    text NOT NULL,
    session_id  text NOT NULL,
    turn_id     uuid NOT NULL,
    label       text NOT NULL CHECK (label IN ('positive', 'negative')),
    happened_at timestamptz NOT NULL,
    PRIMARY KEY (agent_id, turn_id, label)
);
CREATE INDEX session_feedback_by_time ON {schema}.session_feedback (agent_id, happened_at);

-- Agents whose turns wait for extraction are looked for every few seconds.
CREATE INDEX cursors_extraction_due ON {schema}.cursors (agent_id) WHERE name = 'extraction due';
