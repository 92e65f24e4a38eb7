"""Rendering of marked text as Slack's blocks, and as plain text. Pure; called by `message_calls`.

A `rich_text` block names its marks beside the text, so nothing that an agent wrote has to be escaped or can
become a mark, a mention or a quotation. Slack's mrkdwn has no escapes for its own marks.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from pydantic import JsonValue

from choir_common.wire.attachments import Button
from choir_common.wire.model import JsonObject
from choir_gateway.channels.formatting.styled import Styled, TextRun, plain_text

MAX_LABEL = 75
MAX_LINK = 2000
# In `rich_text` Slack does not make an address a link by itself.
URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]]")
LINK_SCHEMES = ("http://", "https://", "mailto:")
STYLES = {"b": "bold", "i": "italic", "s": "strike", "code": "code"}
CONTAINERS = {
    "pre": "rich_text_preformatted",
    "blockquote": "rich_text_quote",
    "": "rich_text_section",
}


def to_blocks(runs: Styled, buttons: Sequence[Button] = ()) -> list[JsonValue]:
    """Return the blocks of a message."""
    blocks: list[JsonValue] = [{"type": "rich_text", "elements": list(_containers(runs))}]
    if buttons:
        blocks.append(
            {"type": "actions", "elements": [_button(it, at) for at, it in enumerate(buttons)]}
        )
    return blocks


def to_plain(runs: Styled, buttons: Sequence[Button] = ()) -> str:
    """Return a message as text without marks, with its buttons as numbered choices."""
    choices = [f"{number}. {button.label}" for number, button in enumerate(buttons, 1)]
    return escape("\n".join([plain_text(runs), *choices]).strip("\n"))


def escape(text: str) -> str:
    """Return a text in which nothing is a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _containers(runs: Styled) -> Iterator[JsonValue]:
    groups = [(kind, list(group)) for kind, group in groupby(runs, key=_container)]
    for number, ((tag, _), group) in enumerate(groups):
        # A container begins on a new line by itself.
        pieces = _trim(group, at_start=number > 0, at_end=number + 1 < len(groups))
        elements = [element for run in pieces for element in _elements(run)]
        if elements:
            yield {"type": CONTAINERS[tag], "elements": elements}


def _container(run: TextRun) -> tuple[str, int]:
    """Return the tag and the number of the mark that makes a run a block of its own."""
    for mark in run.marks:
        if mark.tag in ("pre", "blockquote"):
            return mark.tag, mark.number
    return "", 0


def _trim(runs: list[TextRun], *, at_start: bool, at_end: bool) -> list[TextRun]:
    """Remove the line breaks that separate a group from its neighbours."""
    texts = [run.text for run in runs]
    if at_start:
        texts[0] = texts[0].lstrip("\n")
    if at_end:
        texts[-1] = texts[-1].rstrip("\n")
    return [TextRun(text, run.marks) for text, run in zip(texts, runs, strict=True) if text]


def _elements(run: TextRun) -> Iterator[JsonValue]:
    style: JsonObject = {STYLES[mark.tag]: True for mark in run.marks if mark.tag in STYLES}
    tags = {mark.tag for mark in run.marks}
    link = next((mark.detail for mark in run.marks if mark.tag == "a"), "")
    if link.lower().startswith(LINK_SCHEMES) and len(link) <= MAX_LINK:
        yield _element({"type": "link", "url": link, "text": run.text}, style)
    elif link:
        yield _element({"type": "text", "text": f"{run.text} ({link})"}, style)
    elif tags & {"pre", "code"}:
        yield _element({"type": "text", "text": run.text}, {} if "pre" in tags else style)
    else:
        yield from _with_links(run.text, style)


def _with_links(text: str, style: JsonObject) -> Iterator[JsonValue]:
    at = 0
    for url in URL.finditer(text):
        if len(url.group()) > MAX_LINK:
            continue
        if url.start() > at:
            yield _element({"type": "text", "text": text[at : url.start()]}, style)
        yield _element({"type": "link", "url": url.group()}, style)
        at = url.end()
    if at < len(text):
        yield _element({"type": "text", "text": text[at:]}, style)


def _element(element: JsonObject, style: JsonObject) -> JsonValue:
    return {**element, "style": style} if style else element


def _button(button: Button, number: int) -> JsonValue:
    return {
        "type": "button",
        "action_id": f"choice-{number}",
        "text": {"type": "plain_text", "text": button.label[:MAX_LABEL], "emoji": False},
        "value": button.data,
    }
