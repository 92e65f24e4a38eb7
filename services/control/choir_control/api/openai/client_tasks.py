"""Requests that chat programs make about a chat, and that are no message of the user. Pure.

Open WebUI asks its model for a title, tags, follow-up questions and search queries, with a prompt that
contains the whole chat. In an agent's conversation such a prompt would be a message. So it is answered here.
"""

import json
import re

MARKS = ("### Task:", "### Output:", "<chat_history>")
"""All of them are in each such prompt of Open WebUI; its prompts with documents have only the first."""
EMPTY: dict[str, object] = {"tags": [], "follow_ups": [], "queries": [], "text": ""}
MAX_TITLE = 50
_KEY = re.compile(r'"(title|tags|follow_ups|queries|text)"\s*:')
_FIRST_USER_LINE = re.compile(r"<chat_history>\s*(?:USER:\s*)?(?P<line>[^\n]*)")


def answer_task(text: str) -> str | None:
    """Return the JSON that answers such a request without the agent; None if it is a user's message."""
    if not text.startswith(MARKS[0]) or not all(mark in text for mark in MARKS):
        return None
    key = _KEY.search(text, text.index(MARKS[1]))
    if key is None:
        return None
    name = key[1]
    value = _title_of(text) if name == "title" else EMPTY[name]
    return json.dumps({name: value}, ensure_ascii=False)


def _title_of(text: str) -> str:
    """Return the first words of the chat."""
    matches = list(_FIRST_USER_LINE.finditer(text))  # guidelines may mention the mark, too
    words = matches[-1]["line"].split() if matches else []
    title = ""
    for word in words:
        if len(title) + len(word) >= MAX_TITLE:
            break
        title = f"{title} {word}".strip()
    return title or "Chat"
