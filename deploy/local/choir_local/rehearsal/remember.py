"""Answer what the agent asks for its memory: a compaction, a session's summary. By `choose`. Pure.

Nothing is understood: what the user said last is quoted, so that a summary stays short however long the
session.
"""

import json

import orjson

from choir_common.wire.json import JsonObject

QUOTED = 300


def fold_events(text: str) -> str:
    """Return a valid memory delta (spec 11.3) for the events in `text`."""
    delta: JsonObject = {
        "mode": "overwrite",
        "summary_update": f"Earlier in this session (quoted by a script): {_said(text)}",
    }
    return orjson.dumps({"memory_delta": delta}).decode()


def sum_up(text: str) -> str:
    """Return a session's summary in its parts (spec 11.5)."""
    told = f"The session, quoted by a script: {_said(text)}"
    topics = [{"title": "The session", "text": told}]
    return orjson.dumps({"summary": told, "topics": topics}).decode()


def _said(text: str) -> str:
    """Return the user's newest words in the material, which has one JSON object a line."""
    said = [str(event["user"]) for event in map(_read, text.splitlines()) if event.get("user")]
    words = " | ".join(" ".join(one.split()) for one in said) or " ".join(text.split())
    return words if len(words) <= QUOTED else "…" + words[-QUOTED:]


def _read(line: str) -> JsonObject:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
