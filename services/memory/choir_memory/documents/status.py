"""The status of a document as answers show it, in SQL for a row `d` of its table."""

SESSION_STATUS = "CASE WHEN d.expires_at <= now() THEN 'expired' ELSE 'active' END"

KNOWLEDGE_STATUS = """
CASE WHEN d.expires_at <= now() THEN 'expired' WHEN d.status = 'retired' THEN 'retired'
     WHEN d.valid_to <= now() THEN 'expired' WHEN d.status = 'held' THEN 'held'
     WHEN d.valid_from > now() THEN 'upcoming' ELSE 'active' END
""".strip()

NOT_OVER = """
(d.expires_at IS NULL OR d.expires_at > now()) AND (d.valid_to IS NULL OR d.valid_to > now())
""".strip()
"""Condition for knowledge: it has neither expired nor ended. With the status `active` it is searched."""

# a document that was superseded has an end, so the links of all others are not read
SUPERSEDED_BY = """
CASE WHEN d.valid_to IS NOT NULL THEN ARRAY(
    SELECT l.from_id FROM {schema}.links l WHERE l.to_id = d.id AND l.kind = 'supersedes'
    ORDER BY l.from_id) END
""".strip()
