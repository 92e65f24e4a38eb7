"""SQL of approval requests. The conversation that is asked is `dm`, or else that of the session."""

COLUMNS = """approval_id, a.session_id, a.agent_id, call_id, request_type, payload, a.digest, a.status,
    created_at, resolved_at, decided_by, scopes, job_id, pages, pages_shown, hosts,
    COALESCE(o.dm, a.dm, s.dm) AS dm, COALESCE(o.gateway, a.gateway, s.gateway) AS gateway,
    a.dm AS further_dm, s.dm AS home_dm, e.stage,
    COALESCE(e.detail, '') AS detail,
    request_type IN ('call', 'mcp_question') AND s.ended_at IS NOT NULL
    AND s.status NOT IN ('starting', 'active', 'stopping', 'crashed')
    AND s.ended_at <= COALESCE(resolved_at, clock_timestamp()) AS session_ended"""
FROM = """FROM choir_control.pending_approvals AS a JOIN choir_control.sessions AS s USING (session_id)
    LEFT JOIN choir_control.approval_effects AS e USING (approval_id)
    LEFT JOIN choir_control.outbox AS o ON o.outbox_id = a.notice_id"""
# The statement that decides also checks the button: DM, user, nonce, digest and state. If one of
# them does not fit, nothing changes.
DECIDE = """
WITH decided AS (
    UPDATE choir_control.pending_approvals AS a
    SET status = $2, resolved_at = clock_timestamp(), decided_by = $3, answer = $16::json
    WHERE approval_id = $1 AND status = 'pending' AND ($6::bytea IS NULL OR EXISTS (
        SELECT FROM choir_control.approval_nonces AS n
        WHERE n.nonce_sha256 = $6 AND n.approval_id = a.approval_id AND n.dm = $7 AND n.user_id = $8
          AND n.digest = a.digest AND n.used_at IS NULL))
    RETURNING approval_id, session_id, agent_id, job_id, request_type, digest, notice_id, hosts, dm, gateway
), granted AS (
    INSERT INTO choir_control.grants (grant_id, agent_id, tool, destinations, digest, scope, session_id,
        job_id, approval_id, granted_by, expires_at, hosts, dm)
    SELECT $10::text, agent_id, $11::text, $12::text[], $13::text, $14::text, session_id, job_id,
        approval_id, $3, clock_timestamp() + $15::interval, hosts, dm
    FROM decided WHERE $2 = 'approved' AND $10::text IS NOT NULL
), used AS (
    UPDATE choir_control.approval_nonces AS n
    SET used_at = clock_timestamp(), callback_id = CASE WHEN n.nonce_sha256 = $6 THEN $9 END
    FROM decided WHERE n.approval_id = decided.approval_id AND n.used_at IS NULL
), ordered AS (
    INSERT INTO choir_control.approval_effects (approval_id, digest)
    SELECT approval_id, digest FROM decided
    WHERE $2 = 'approved' AND request_type NOT IN ('call', 'mcp_tools', 'mcp_question')
), told AS (
    INSERT INTO choir_control.signals (session_id, body)
    SELECT session_id, $4::json FROM decided JOIN choir_control.sessions USING (session_id)
    WHERE status IN ('starting', 'active', 'stopping', 'crashed')
), asked AS (
    SELECT COALESCE(o.dm, decided.dm, s.dm) AS dm, COALESCE(o.gateway, decided.gateway, s.gateway) AS gateway,
        notice_id
    FROM decided JOIN choir_control.sessions AS s USING (session_id)
    LEFT JOIN choir_control.outbox AS o ON o.outbox_id = notice_id
), said AS (
    SELECT choir_control.say(dm, gateway, $5) AS dm FROM asked
    WHERE notice_id IS NULL AND $3 <> 'dm ' || dm
), edited AS (
    SELECT choir_control.say_with(dm, gateway, $5, NULL, notice_id) AS outbox_id FROM asked
    WHERE notice_id IS NOT NULL
)
SELECT session_id, (SELECT dm FROM said), (SELECT outbox_id FROM edited) FROM decided
"""
# Shows the next page in place of the notice, which has the buttons.
PAGE = """
WITH shown AS (
    UPDATE choir_control.pending_approvals SET pages_shown = $2
    WHERE approval_id = $1 AND status = 'pending' AND pages_shown = $2 - 1 AND $2 <= pages
      AND notice_id IS NOT NULL
    RETURNING approval_id, session_id, notice_id, dm, gateway
), said AS (
    SELECT approval_id, choir_control.say_with(
        COALESCE(o.dm, shown.dm, s.dm), COALESCE(o.gateway, shown.gateway, s.gateway), $3, $4::json,
        notice_id) AS outbox_id
    FROM shown JOIN choir_control.sessions AS s ON s.session_id = shown.session_id
    LEFT JOIN choir_control.outbox AS o ON o.outbox_id = notice_id
)
SELECT approval_id, outbox_id FROM said
"""
NOTICE = """
WITH said AS (
    SELECT choir_control.say_with(
        COALESCE($4::text, a.dm, s.dm), COALESCE($5::text, a.gateway, s.gateway), $2, $3::json, NULL
    ) AS outbox_id
    FROM choir_control.pending_approvals AS a JOIN choir_control.sessions AS s USING (session_id)
    WHERE a.approval_id = $1
)
UPDATE choir_control.pending_approvals SET notice_id = (SELECT outbox_id FROM said)
WHERE approval_id = $1
"""
# The waiting time excludes jumps of the system clock and time in which nobody could have answered.
WAIT = """
UPDATE choir_control.pending_approvals SET waited = waited + $1 WHERE status = 'pending'
RETURNING approval_id, waited >= $2 AS overdue
"""
