"""Requests that chat programs make about a chat, and that are no message of the user. Pure.

Open WebUI asks its model for a title, tags, follow-up questions, search queries, the prompt of a picture, an
emoji and the tools to call, with prompts that contain the chat. In an agent's conversation such a prompt
would be a message. So it is answered here.
"""

import json
import re

MARKS = ("### Task:", "### Output:", "<chat_history>")
"""All of them are in each such prompt of Open WebUI; its prompts with documents have only the first."""
EMPTY: dict[str, object] = {"tags": [], "follow_ups": [], "queries": [], "text": ""}
MAX_TITLE = 50
TOOL_CHOICE_MARK = "Available Tools: "
"""The beginning of Open WebUI's instructions to choose tools, if it does not offer them in `tools`."""
TOOL_QUERY_MARK = "Query: "
NO_TOOL_CALLS = '{"tool_calls": []}'
EMOJI_MARK = (
    "Your task is to reflect the speaker's likely facial expression through a fitting emoji."
)
EMOJI = "\N{SLIGHTLY SMILING FACE}"
_KEY = re.compile(r'"(title|tags|follow_ups|queries|text|prompt)"\s*:')
_FIRST_USER_LINE = re.compile(r"<chat_history>\s*(?:USER:\s*)?(?P<line>[^\n]*)")
_USER_LINE = re.compile(r"^USER: (?P<line>.*)$", re.MULTILINE)


def answer_task(text: str, *, instructions: str = "") -> str | None:
    """Return the answer to such a request without the agent; None if it is a user's message.

    `instructions` is the message of the system before it.
    """
    if instructions.startswith(TOOL_CHOICE_MARK) and text.startswith(TOOL_QUERY_MARK):
        return NO_TOOL_CALLS
    if text.startswith(EMOJI_MARK):
        return EMOJI
    if not text.startswith(MARKS[0]) or not all(mark in text for mark in MARKS):
        return None
    key = _KEY.search(text, text.index(MARKS[1])) or _KEY.search(text)
    if key is None:
        return None
    name = key[1]
    match name:
        case "title":
            value: object = _title_of(text)
        case "prompt":
            value = _last_user_line(text)
        case _:
            value = EMPTY[name]
    return json.dumps({name: value}, ensure_ascii=False)


def _last_user_line(text: str) -> str:
    """Return what the user wrote last: the picture is to show that."""
    lines = [it["line"] for it in _USER_LINE.finditer(text)]
    return lines[-1] if lines else ""


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
