"""Print: data on standard output, everything else on standard error. Used by every command.

Colour is left out where nobody sees it, and where NO_COLOR is set (rich does both).
"""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP = 2
LAST_MAY_FOLD = 20  # columns: texts stand last, and read well in this
PIPE_WIDTH = 10_000  # a pipe has no width: nothing may be cut there


def out() -> Console:
    """Return the console for data."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, soft_wrap=True)


def err() -> Console:
    """Return the console for words."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH, soft_wrap=True)


def print_rows(rows: Table, nothing: str = "") -> None:
    """Print a table; where a terminal is too narrow for it, a paragraph for each row.

    Without a row, `nothing` is said instead.
    """
    if nothing and not rows.row_count:
        err().print(nothing, markup=False)
        return
    console = out()
    widths = _narrowest(rows)
    if sum(widths) + GAP * (len(widths) - 1) <= console.width or not rows.show_header:
        for column, width in zip(rows.columns, widths, strict=True):
            column.min_width = width
        console.print(rows)
        return
    heads = [str(column.header) for column in rows.columns]
    cells = [list(column.cells) for column in rows.columns]
    for number in range(rows.row_count):
        card = table("", "")
        card.show_header = False
        for head, column in zip(heads, cells, strict=True):
            card.add_row(f"[bold]{head}[/]", column[number])
        if number:
            console.print()
        console.print(card)


def _narrowest(rows: Table) -> list[int]:
    """Return how wide each column is with its words whole; those of the last one may be folded."""
    widths = []
    for column in rows.columns:
        texts = [Text.from_markup(str(cell)) for cell in (column.header, *column.cells)]
        widths.append(
            max(cell_len(word) for text in texts for word in (text.plain.split() or [""]))
        )
    *whole, last = widths
    return [*whole, min(last, LAST_MAY_FOLD)]


def print_json(value: BaseModel | Sequence[BaseModel] | dict[str, object]) -> None:
    """Print `value` as indented JSON."""
    match value:
        case BaseModel():
            plain: object = value.model_dump(mode="json")
        case dict():
            plain = value
        case _:
            plain = [item.model_dump(mode="json") for item in value]
    sys.stdout.write(json.dumps(plain, indent=2, ensure_ascii=False) + "\n")


def print_json_line(value: BaseModel) -> None:
    """Print `value` on one line, at once: for streams."""
    sys.stdout.write(value.model_dump_json() + "\n")
    sys.stdout.flush()


def table(*columns: str) -> Table:
    """Return an empty table with plain heads and no lines."""
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def counted(number: int, noun: str) -> str:
    """Say how many there are: `1 agent`, `2 agents`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Say how long ago `moment` was: `-`, `12s`, `3m`, `5h`, `2d`."""
    if moment is None:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
