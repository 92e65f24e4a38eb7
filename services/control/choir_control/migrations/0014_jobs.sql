-- Which core jobs of a session are open, without reading all of its log.

CREATE INDEX session_events_jobs ON {schema}.session_events (session_id, rev)
    WHERE type IN ('core_started', 'core_stopped');
