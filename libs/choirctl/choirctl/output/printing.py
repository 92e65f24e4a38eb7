"""Output of all commands: data on standard output, everything else on standard error.

Output has no colour on a pipe or if NO_COLOR is set (rich does both).
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import typer
from pydantic import BaseModel
from rich import markup
from rich.cells import cell_len
from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.table import Table
from rich.text import Text

from choir_common.escape_text import escape_json
from choirctl.output.language import tr
from choirctl.output.safe_console import SafeConsole

GAP = 2
LAST_MAY_FOLD = 20  # columns: the last one contains texts, which can be read folded to this width
PIPE_WIDTH = 10_000  # a pipe has no width, and nothing may be truncated there


def escape(text: str) -> str:
    """Return a text, or a message in the user's language, with its markup made visible."""
    return markup.escape(tr(text))


def confirm(question: str, *, abort: bool = False, default: bool = False) -> bool:
    """Ask a question on standard error; with `abort`, raise typer.Abort unless the answer is yes."""
    return typer.confirm(tr(question), default=default, abort=abort, err=True)


def stdout_console() -> Console:
    """Return the console for data."""
    return _console(PIPE_WIDTH if not sys.stdout.isatty() else None)


def stderr_console() -> Console:
    """Return the console for messages to the user."""
    return _console(PIPE_WIDTH if not sys.stderr.isatty() else None, stderr=True)


def _console(width: int | None, *, stderr: bool = False) -> Console:
    return SafeConsole(stderr=stderr, width=width, soft_wrap=True)


def print_rows(rows: Table, nothing: str = "") -> None:
    """Print a table, or one paragraph per row if the terminal is too narrow for it.

    Prints `nothing` on standard error if the table has no rows.
    """
    if nothing and not rows.row_count:
        stderr_console().print(nothing, markup=False)
        return
    console = stdout_console()
    widths = _fit_widths(rows, console.width) if rows.show_header else None
    for column, width in zip(rows.columns, widths or (), strict=False):
        column.width = width
    if not console.is_terminal:
        with console.capture() as printed:
            console.print(rows)
        # the layout fills each line with blanks
        sys.stdout.write(re.sub(" +\n", "\n", printed.get()))
        return
    if widths is not None or not rows.show_header:
        console.print(rows)
        return
    heads = [_shown(column.header) for column in rows.columns]
    cells = [list(column.cells) for column in rows.columns]
    for number in range(rows.row_count):
        card = table("", "")
        card.show_header = False
        for head, texts in zip(heads, cells, strict=True):
            card.add_row(f"[bold]{head}[/]", texts[number])
        if number:
            console.print()
        console.print(card)


def _shown(cell: object) -> str:
    return tr(cell) if isinstance(cell, str) else str(cell)


def _fit_widths(rows: Table, width: int) -> list[int] | None:
    """Return the column widths with which the table fits; None if a word would be split.

    Only words of the last column may be split: it contains texts and paths.
    """
    cells = [
        [Text.from_markup(_shown(c), emoji=False).plain for c in (it.header, *it.cells)]
        for it in rows.columns
    ]
    natural = [max(map(cell_len, column)) for column in cells]
    words = [max(cell_len(word) for text in it for word in (text.split() or [""])) for it in cells]
    room = width - GAP * (len(cells) - 1)
    # prefer widths without folding, then those of the longest word in each column
    for widths in (natural, words):
        rest = room - sum(widths[:-1])
        if rest >= min(natural[-1], LAST_MAY_FOLD):
            return [*widths[:-1], min(rest, natural[-1])]
    return None


def print_json(value: BaseModel | Sequence[BaseModel] | Mapping[str, object]) -> None:
    """Print `value` as indented JSON."""
    sys.stdout.write(_indented(value) + "\n")


def print_json_line(value: BaseModel) -> None:
    """Print `value` as JSON on one line and flush: for streams."""
    print_json_text(value.model_dump_json() + "\n")


def print_json_text(text: str) -> None:
    """Print JSON text with its hidden characters escaped, and flush."""
    sys.stdout.write(escape_json(text))
    sys.stdout.flush()


class JsonLineWriter:
    """Binary writer to standard output for JSON lines; each write is one whole line."""

    def write(self, line: bytes) -> int:
        """Print a line with its hidden characters escaped; return the number of bytes taken."""
        sys.stdout.write(escape_json(line.decode(errors="replace")))
        return len(line)

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()


def print_colored_json(value: Mapping[str, object]) -> None:
    """Print `value` as indented JSON, with colours on a terminal."""
    stdout_console().print(JSONHighlighter()(Text(_indented(value))))


def _indented(value: BaseModel | Sequence[BaseModel] | Mapping[str, object]) -> str:
    match value:
        case BaseModel():
            plain: object = value.model_dump(mode="json")
        case Mapping():
            plain = dict(value)
        case _:
            plain = [item.model_dump(mode="json") for item in value]
    return escape_json(json.dumps(plain, indent=2, ensure_ascii=False))


def table(*columns: str) -> Table:
    """Return an empty table with these column headers and no borders."""
    rows = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        rows.add_column(column, overflow="fold")
    return rows


def format_age(moment: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago `moment` was, such as `12s`, `3m`, `5h` or `2d`; `-` for None."""
    if moment is None:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
