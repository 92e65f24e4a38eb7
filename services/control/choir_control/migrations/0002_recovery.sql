-- What recovery looks for in a log that may be long: its newest snapshot, and what to hand on.

CREATE INDEX session_events_landmarks ON {schema}.session_events (session_id, type, rev)
    WHERE type IN ('snapshot', 'memory_compacted', 'session_stopped');
