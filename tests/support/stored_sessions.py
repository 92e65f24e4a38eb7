"""Sessions of the log that are written into the database, for the tests of its page."""

import json
from datetime import UTC, datetime, timedelta

import asyncpg

from choir_common.eventlog.chain import LogHead, event_hash
from choir_common.wire.events import Event
from choir_common.wire.model import JsonObject, format_log_time
from tests.support.stack import sessions_of
from tests.support.web_cockpit import Cockpit


async def session_id(cockpit: Cockpit) -> str:
    """Return the session that runs."""
    sessions = await sessions_of(cockpit.stack)
    return str(next(it["session_id"] for it in sessions if it["ended_at"] is None))


async def connect(cockpit: Cockpit) -> asyncpg.Connection:
    """Return a connection of the database's administrator."""
    return await asyncpg.connect(cockpit.stack.dsn, password=cockpit.stack.secret("postgres-admin"))


async def store_session(
    cockpit: Cockpit, name: str, events: list[tuple[str, str, JsonObject]], reason: str
) -> None:
    """Store an ended session with these events (lane, type, payload), as if it had been archived here."""
    head, rows = LogHead(), []
    began = datetime.now(UTC) - timedelta(days=1)
    for rev, (lane, kind, payload) in enumerate(events, start=1):
        event = Event(
            session_id=name,
            rev=rev,
            lane=lane,
            type=kind,
            payload=payload,
            at=format_log_time(began + timedelta(seconds=rev)),
            hash_prev=head.hash,
            hash="",
        )
        head = LogHead(rev, event_hash(event))
        text = json.dumps(payload)
        rows.append((name, rev, lane, kind, text, event.at, event.hash_prev, head.hash))
    connection = await connect(cockpit)
    try:
        changes = {
            "session_id": name,
            "status": "stopped",
            "head_rev": head.rev,
            "head_hash": head.hash,
            "started_at": began.isoformat(),
            "ended_at": (began + timedelta(seconds=len(events))).isoformat(),
            "end_reason": reason,
        }
        await connection.execute(
            "INSERT INTO choir_control.sessions SELECT (jsonb_populate_record(s, $1::jsonb)).* "
            "FROM choir_control.sessions AS s WHERE s.session_id = $2",
            json.dumps(changes),
            await session_id(cockpit),
        )
        await connection.executemany(
            "INSERT INTO choir_control.session_events "
            "(session_id, rev, lane, type, payload, at, hash_prev, hash) "
            "VALUES ($1, $2, $3, $4, $5::json, $6, $7, $8)",
            rows,
        )
    finally:
        await connection.close()


def turn(
    number: int, text: str, tool: str, data: JsonObject, lane: str = "edge"
) -> list[tuple[str, str, JsonObject]]:
    """Return the events of a turn with one tool call."""
    of = {"turn_id": f"t{number}"}
    call = {**of, "call_id": f"call{number}", "tool": tool}
    requested = {"call_id": f"call{number}", "tool": tool, "arguments": "{}"}
    output = {"text": text, "tool_calls": [requested], "model": "m", "finish_reason": "tool_calls"}
    result = {"status": "success", "output": data, "duration_ms": 12.5}
    lock = {"resource": text[:100], "mode": "X"}
    message = {"inbox_id": f"i{number}", "dm": "console", "text": text}
    return [
        (lane, "user_msg", {**of, **message}),
        (lane, "model_output", {**of, **output}),
        (lane, "tool_call_requested", {**call, "input": data}),
        (lane, "tool_call_committed", {**call, "locks": [lock]}),
        (lane, "tool_result_committed", {**call, **result}),
        (lane, "reply", {**of, "dm": "console", "text": text, "kind": "answer"}),
    ]
