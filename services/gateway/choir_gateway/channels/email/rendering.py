"""Rendering of marked text as plain text and as HTML of a mail. Pure; called by `composer`.

The HTML has no remote content and no scripts. Everything that an agent wrote is escaped.
"""

from html import escape

from choir_gateway.channels.formatting.styled import Styled, TextMark, count_shared_marks

LINK_SCHEMES = ("http://", "https://", "mailto:")
PAGE = (
    '<!DOCTYPE html>\n<html><body><div style="font-family: sans-serif">{body}</div></body></html>\n'
)
PRE_STYLE = "background: #f4f4f4; padding: 0.5em; overflow-x: auto"
QUOTE_STYLE = "margin: 0; padding-left: 0.8em; border-left: 3px solid #999"


def to_mail_text(runs: Styled) -> str:
    """Return plain text; the address of a link follows its text."""
    out: list[str] = []
    link: TextMark | None = None
    label = ""
    for run in runs:
        mark = next((it for it in run.marks if it.tag == "a"), None)
        if link is not None and mark != link:
            out.append(_address_of(link, label))
            label = ""
        link = mark
        label += run.text if mark else ""
        out.append(run.text)
    if link is not None:
        out.append(_address_of(link, label))
    return "".join(out)


def to_mail_html(*texts: Styled) -> str:
    """Return a page with one paragraph per text."""
    body = "".join(f'<div style="margin-bottom: 1em">{_fragment(runs)}</div>' for runs in texts)
    return PAGE.format(body=body)


def _address_of(link: TextMark, label: str) -> str:
    is_shown = label.strip() in (link.detail, link.detail.removeprefix("mailto:"))
    return "" if is_shown else f" ({link.detail})"


def _fragment(runs: Styled) -> str:
    out: list[str] = []
    open_marks: list[TextMark] = []
    for run in runs:
        shared_count = count_shared_marks(open_marks, run.marks)
        out += [_closing(mark) for mark in reversed(open_marks[shared_count:])]
        out += [_opening(mark) for mark in run.marks[shared_count:]]
        open_marks = list(run.marks)
        is_block = any(mark.tag == "pre" for mark in run.marks)
        text = escape(run.text)
        out.append(text if is_block else text.replace("\n", "<br>\n"))
    out += [_closing(mark) for mark in reversed(open_marks)]
    return "".join(out)


def _opening(mark: TextMark) -> str:
    match mark.tag:
        case "a" if mark.detail.lower().startswith(LINK_SCHEMES):
            return f'<a href="{escape(mark.detail)}">'
        case "a":
            return "<span>"
        case "pre":
            return f'<pre style="{PRE_STYLE}">'
        case "blockquote":
            return f'<blockquote style="{QUOTE_STYLE}">'
        case tag:
            return f"<{tag}>"


def _closing(mark: TextMark) -> str:
    if mark.tag == "a" and not mark.detail.lower().startswith(LINK_SCHEMES):
        return "</span>"
    return f"</{mark.tag}>"
