"""Telegram's rules for text: its length unit, and what each parse mode rejects.

Called by `methods` before it stores a message. The rules are the strict subset that Choir relies on.
"""

import re
from html.parser import HTMLParser

from choir_testing.telegram.faults import bad_request

MESSAGE_LIMIT = 4096
CAPTION_LIMIT = 1024
_RESERVED = set("_*[]()~`>#+-=|{}.!")
_PAIRED = ("```", "`", "__", "_", "*", "~", "||")
_TAGS = frozenset(
    {"a", "b", "blockquote", "code", "del", "em", "i", "ins", "pre", "s", "span", "strike"}
    | {"strong", "tg-emoji", "tg-spoiler", "u"}
)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le")) // 2


def render(text: str, parse_mode: str | None) -> str:
    """Return the plain text that a user would see.

    Raises BotApiError 400 with Telegram's wording for invalid markup, for empty text and for text over the
    limit, which applies after the markup is removed.
    """
    plain = _strip(text, parse_mode)
    if not plain.strip():
        raise bad_request("message text is empty")
    if utf16_length(plain) > MESSAGE_LIMIT:
        raise bad_request("message is too long")
    return plain


def render_caption(text: str, parse_mode: str | None, limit: int) -> str:
    """Return the caption that a user would see, which may be empty. Raises as `render` does."""
    plain = _strip(text, parse_mode)
    if utf16_length(plain) > limit:
        raise bad_request("message caption is too long")
    return plain


def _strip(text: str, parse_mode: str | None) -> str:
    match (parse_mode or "").lower():
        case "":
            return text
        case "html":
            return _strip_html(text)
        case "markdownv2":
            return _strip_markdown(text)
        case _:
            raise bad_request("unsupported parse_mode")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            raise bad_request(f'can\'t parse entities: Unsupported start tag "{tag}"')
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise bad_request(f'can\'t parse entities: Unexpected end tag "{tag}"')

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _strip_html(text: str) -> str:
    stray = re.search(r"<(?![a-zA-Z/])", text)
    if stray:
        raise bad_request(f"can't parse entities: Unsupported start tag at {stray.start()}")
    tags = _Tags()
    tags.feed(text)
    tags.close()
    if tags.open:
        raise bad_request(f"can't parse entities: Can't find end tag for \"{tags.open[-1]}\"")
    return "".join(tags.text)


def _strip_markdown(text: str) -> str:
    out: list[str] = []
    opened: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            out.append(text[at + 1])
            at += 2
            continue
        mark = next((m for m in _PAIRED if text.startswith(m, at)), None)
        in_code = bool(opened) and opened[-1].startswith("`")
        if mark and (not in_code or mark == opened[-1]):
            _toggle(opened, mark, at)
            at += len(mark)
            continue
        at = _plain(text, at, in_code, out)
    if opened:
        raise bad_request(f"can't parse entities: Can't find end of entity {opened[-1]}")
    return "".join(out)


def _toggle(opened: list[str], mark: str, at: int) -> None:
    if opened and opened[-1] == mark:
        opened.pop()
    elif mark in opened:
        raise bad_request(f"can't parse entities: entities overlap at byte offset {at}")
    else:
        opened.append(mark)


def _plain(text: str, at: int, in_code: bool, out: list[str]) -> int:
    link = None if in_code else re.compile(r"\[([^\]]+)\]\([^)\s]+\)").match(text, at)
    if link:
        out.append(link.group(1))
        return link.end()
    if text[at] in _RESERVED and not in_code and not (text[at] == ">" and at == 0):
        reason = f"Character '{text[at]}' is reserved and must be escaped with the preceding '\\'"
        raise bad_request(f"can't parse entities: {reason}")
    out.append(text[at])
    return at + 1
