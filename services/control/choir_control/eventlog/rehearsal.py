"""Which sessions are rehearsals: those in which nobody but the scripted rehearsal model has answered.

A condition in SQL, for `sessions.store` and `archiving.rehearsals`.
"""

ONLY_REHEARSED = """(s.rehearsal AND (s.forgotten_at IS NOT NULL OR NOT EXISTS (
    SELECT FROM choir_control.session_events AS e WHERE e.session_id = s.session_id
      AND e.type = 'model_output' AND e.payload ->> 'model' <> 'rehearsal')))"""
"""Of a session `s`. One in which another model answered as well is none: what it was told is kept."""
