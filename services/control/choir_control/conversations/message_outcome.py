"""SQL that tells what became of a message that no person wrote: a prompt of a schedule, or a trigger's.

It is about an inbox row `asked`. Its message has ended when it is answered or closed; the kind of the answer
tells how. The start of a core job closes its message; the end is that of the job, or of its session.
"""

OUTCOME_JOINS = """
    LEFT JOIN choir_control.outbox AS answer
        ON answer.session_id = asked.session_id AND answer.rev = asked.answered_rev AND answer.dm = asked.dm
    LEFT JOIN choir_control.session_events AS begun
        ON begun.session_id = asked.session_id AND begun.rev = asked.answered_rev
            AND begun.type = 'core_started'
    LEFT JOIN choir_control.sessions AS job_session ON job_session.session_id = begun.session_id
    LEFT JOIN LATERAL (
        SELECT ended.payload ->> 'outcome' AS outcome, ended.payload ->> 'reason' AS reason,
            ended.payload ->> 'result' AS result
        FROM choir_control.session_events AS ended
        WHERE ended.session_id = begun.session_id AND ended.rev > begun.rev AND ended.type = 'core_stopped'
          AND ended.payload ->> 'job_id' = begun.payload ->> 'job_id' LIMIT 1
    ) AS job ON true
"""
OUTCOME_CASES = """
        WHEN asked.inbox_id IS NULL THEN 'failed'
        WHEN asked.answered_rev IS NOT NULL AND answer.kind = 'error' THEN 'failed'
        WHEN begun.rev IS NOT NULL AND job.outcome = 'completed' THEN 'done'
        WHEN begun.rev IS NOT NULL AND (job.outcome IS NOT NULL OR job_session.ended_at IS NOT NULL)
            THEN 'failed'
        WHEN begun.rev IS NOT NULL THEN NULL
        WHEN asked.answered_rev IS NOT NULL THEN 'done'
        WHEN asked.closed_at IS NOT NULL THEN 'failed'
"""
"""The outcome: `done`, `failed`, or NULL while it is open."""
DETAIL_CASES = """
        WHEN answer.kind = 'error' THEN left(answer.text, 500)
        WHEN job.outcome <> 'completed' THEN left(concat_ws(': ', job.outcome, NULLIF(job.reason, '')), 500)
        WHEN begun.rev IS NOT NULL AND job.outcome IS NULL THEN 'its session ended before its core job did'
"""
"""The reason of a failure."""
UNANSWERED = "its message was closed without an answer"
