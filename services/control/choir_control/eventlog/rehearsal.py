"""SQL condition for rehearsals: sessions in which only the scripted rehearsal model has answered.

Used by `sessions.store` and `archiving.rehearsals`.
"""

ONLY_REHEARSED = """(s.rehearsal AND (s.forgotten_at IS NOT NULL OR NOT EXISTS (
    SELECT FROM choir_control.session_events AS e WHERE e.session_id = s.session_id
      AND e.type = 'model_output' AND e.payload ->> 'model' <> 'rehearsal')))"""
"""For a session `s`. If another model answered too, the session is not a rehearsal and memory keeps it."""
