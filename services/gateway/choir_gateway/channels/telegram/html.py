"""Telegram's HTML for marked text, and its limits. Pure; called by `sender`, `files` and `drafts`."""

from html import escape

from choir_gateway.channels.formatting.styled import Styled, TextMark, count_shared_marks

LIMIT = 4096
"""Maximum length of a message, in UTF-16 units as Telegram counts."""
CAPTION_LIMIT = 1024
"""Maximum length of a file's caption, in UTF-16 units."""


def to_html(runs: Styled) -> str:
    """Return Telegram's HTML; tags are closed in the reverse order of opening."""
    out: list[str] = []
    open_marks: list[TextMark] = []
    for run in runs:
        shared_count = count_shared_marks(open_marks, run.marks)
        out += [_closing(mark) for mark in reversed(open_marks[shared_count:])]
        out += [_opening(mark) for mark in run.marks[shared_count:]]
        open_marks = list(run.marks)
        out.append(escape(run.text, quote=False))
    out += [_closing(mark) for mark in reversed(open_marks)]
    return "".join(out)


def _opening(mark: TextMark) -> str:
    match mark.tag:
        case "a":
            return f'<a href="{escape(mark.detail)}">'
        case "pre" if mark.detail:
            return f'<pre><code class="language-{escape(mark.detail)}">'
        case tag:
            return f"<{tag}>"


def _closing(mark: TextMark) -> str:
    return "</code></pre>" if mark.tag == "pre" and mark.detail else f"</{mark.tag}>"
