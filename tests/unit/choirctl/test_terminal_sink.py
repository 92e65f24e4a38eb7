"""What is printed cannot steer a terminal, and nothing in choirctl goes around what sees to that."""

import ast
import functools
import io
import json
import unicodedata
from pathlib import Path
from typing import TextIO, cast

import pytest
from rich.markdown import Markdown
from rich.text import Text

from choir_common.escape_text import escape_hidden, escape_json
from choirctl.output.printing import (
    print_colored_json,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)
from choirctl.output.safe_console import SafeConsole
from choirctl.output.terminal import SafeStream, unwrap_stream

ROOT = Path("libs/choirctl/choirctl")
STEERS = "\x1b]0;t\x07\x1b[2J\x9b2J\r\x08\u202e\u200b\u2066\ufeff\u2028\ud800"
# outside these modules nobody writes bytes to a stream, or makes a console or an output of prompt_toolkit
# draft_lines only measures with its Console
SINKS = {"terminal.py", "safe_console.py", "draft_lines.py"}


@functools.cache
def every_odd() -> list[str]:
    """Return every character that no terminal should be given."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in kinds]


def test_every_control_and_format_character_is_spelled_out() -> None:
    left = [c for c in every_odd() if c in escape_hidden(f"a{c}b", keep="")]
    assert left == []
    assert escape_hidden("a\x1b\n\tb") == "a<U+001B>\n\tb"


@pytest.mark.parametrize(
    "text", ["Grüße, мир, 漢字 😀", "👨\u200d👩\u200d👧", "می\u200cخواهم", "❤️"]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert escape_hidden(text) == text


def test_a_joiner_that_joins_nothing_is_spelled_out() -> None:
    assert escape_hidden("pass\u200dword \u200c") == "pass<U+200D>word <U+200C>"


def test_escaped_json_means_the_same_and_has_no_hidden_character() -> None:
    value = {"".join(every_odd()): ["".join(every_odd()), "é漢"]}
    text = escape_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == json.loads(json.dumps(value))
    assert not set(every_odd()) & set(text) - {"\n"} and "é漢" in text


def test_a_console_prints_text_markup_tables_and_markdown_without_steering(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = SafeConsole(width=80, force_terminal=True, color_system="standard", highlight=False)
    rows = table("a", "b")
    rows.add_row(STEERS, "[link=http://x]there[/link]")
    for each in (f"[bold]{STEERS}[/]", Text(STEERS), Markdown(STEERS), rows):
        console.print(each)
    console.print("[link=http://x]there[/link]")
    shown = capsys.readouterr().out
    for own in ("\x1b[1m", "\x1b[0m"):
        shown = shown.replace(own, "")
    assert not set(every_odd()) & set(shown) - {"\n"}, ascii(shown)
    assert "<U+001B>[2J" in shown and "there" in shown


def test_every_way_of_printing_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    rows = table("a")
    rows.add_row(STEERS)
    print_rows(rows)
    stdout_console().print(STEERS, markup=False)
    stderr_console().print(STEERS)
    print_json({"a": STEERS})
    print_colored_json({"a": STEERS})
    shown = capsys.readouterr()
    assert not set(every_odd()) & set(shown.out + shown.err) - {"\n"}


def test_a_stream_spells_out_what_a_plain_write_brings() -> None:
    raw = io.StringIO()
    stream = SafeStream(raw)
    assert stream.write(STEERS) == len(STEERS)
    assert not set(every_odd()) & set(raw.getvalue())
    assert not hasattr(stream, "buffer"), "bytes would go around it"
    assert unwrap_stream(cast(TextIO, stream)) is raw


def ways_around(tree: ast.Module) -> list[str]:
    """Return what a module uses to write past the sink."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Console" | "print" | "print_formatted_text" as name)):
                found.append(name)
            case ast.Attribute(value=ast.Attribute(attr="stdout" | "stderr"), attr="buffer"):
                found.append("buffer")
            case ast.Attribute(attr="__stdout__" | "__stderr__" as name):
                found.append(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write")):
                found.append("os.write")
            case ast.Call(func=ast.Attribute(attr="print_json" | "from_ansi" as name)):
                found.append(name)
    return found


@pytest.mark.parametrize("module", sorted(ROOT.rglob("*.py")), ids=lambda path: path.stem)
def test_no_module_prints_past_the_sink(module: Path) -> None:
    if module.name not in SINKS:
        assert ways_around(ast.parse(module.read_text())) == []


def test_a_way_around_the_sink_is_found() -> None:
    source = "import sys\nsys.stdout.buffer.write(b'')\nConsole().print('')\nos.write(1, b'')"
    assert set(ways_around(ast.parse(source))) == {"buffer", "Console", "os.write"}
