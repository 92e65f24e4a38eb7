"""Format of one log line: timestamp, level, source, session, lane, message.

Used by `pump`. Choir's programs write JSON already; other output, such as Postgres' or a traceback, becomes
the message of a line. The reader of the pipe sets the source, so a child cannot forge it.
"""

import datetime

import orjson

LONGEST = 64 * 1024  # bytes of one line; a longer one is cut and marked
_CUT = " [cut]"


def shape(raw: bytes, source: str, session: str | None) -> bytes:
    """Return `raw` as one JSON line with a line end; empty for a blank line."""
    text = raw.strip()
    if not text:
        return b""
    found = _parse(text)
    stamped: dict[str, object] = {
        "timestamp": found.pop("timestamp", None) or _now(),
        "level": found.pop("level", None) or "info",
        "source": source,
    }
    found.pop("source", None)
    own = found.pop("session", None)
    if session or own:
        stamped["session"] = session or own
    message = found.pop("message", "")
    return orjson.dumps({**stamped, **found, "message": message}, option=_OPTIONS)


_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


def _parse(text: bytes) -> dict[str, object]:
    """Return the fields of a JSON object, or the text as `message`."""
    if text.startswith(b"{") and len(text) <= LONGEST:
        try:
            found: object = orjson.loads(text)
        except orjson.JSONDecodeError:
            found = None
        if isinstance(found, dict):
            return found
    words = text[:LONGEST].decode(errors="replace")
    return {"message": words + (_CUT if len(text) > LONGEST else "")}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
