-- Sessions with the rehearsal model, which is scripted: a session with a real model neither continues one nor
-- remembers it. Of earlier sessions, the first model call says which model it was.
ALTER TABLE {schema}.sessions
    ADD COLUMN rehearsal    boolean NOT NULL DEFAULT false,
    ADD COLUMN forgotten_at timestamptz;                 -- a rehearsal of which memory holds nothing any more
UPDATE {schema}.sessions AS s SET rehearsal = true
WHERE (SELECT e.payload ->> 'model' FROM {schema}.session_events AS e
       WHERE e.session_id = s.session_id AND e.type = 'model_output' ORDER BY e.rev LIMIT 1) = 'rehearsal';
