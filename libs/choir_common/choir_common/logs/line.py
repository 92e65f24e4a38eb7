"""Shape one line of a log: timestamp, level, source, session, lane, message (spec 22.2).

Called by `pump`. What a program of ours writes is JSON already; what Postgres or a traceback writes becomes
the message of a line. Who wrote it is stamped by the reader of the pipe and cannot be forged.
"""

import datetime

import orjson

LONGEST = 64 * 1024  # bytes of one line; what is longer is cut, and says so
_CUT = " [cut]"


def shape(raw: bytes, source: str, session: str | None) -> bytes:
    """Return `raw` as one JSON line with its end; empty for a blank line."""
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
    """Return the fields of a JSON object, or the text as a message."""
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
