"""Answers to requests for compactions and session summaries. Pure. Used by `answers`.

The answer quotes the user's last messages, so that a summary stays short in a long session.
"""

import json

import orjson

from choir_common.wire.model import JsonObject

QUOTED = 300


def fold_events(text: str) -> str:
    """Return a valid memory delta for the events in `text`."""
    delta: JsonObject = {
        "mode": "overwrite",
        "summary_update": f"Earlier in this session (quoted by a script): {_said(text)}",
    }
    return orjson.dumps({"memory_delta": delta}).decode()


def summarize_session(text: str) -> str:
    """Return a session summary with its topics."""
    summary = f"The session, quoted by a script: {_said(text)}"
    topics = [{"title": "The session", "text": summary}]
    return orjson.dumps({"summary": summary, "topics": topics}).decode()


def _said(text: str) -> str:
    """Return the user's newest messages from the material, which has one JSON object per line."""
    texts = [str(event["user"]) for event in map(_read, text.splitlines()) if event.get("user")]
    quote = " | ".join(" ".join(item.split()) for item in texts) or " ".join(text.split())
    return quote if len(quote) <= QUOTED else "…" + quote[-QUOTED:]


def _read(line: str) -> JsonObject:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
