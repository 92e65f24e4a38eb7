"""Slack's blocks from marked text, and plain text from what users write in Slack."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from choir_common.wire.attachments import Button
from choir_common.wire.messages import ChannelCommand
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import make_own, make_plain, plain_text
from choir_gateway.channels.slack.message_parser import restore_command, to_text
from choir_gateway.channels.slack.parts import LIMIT, make_card_part
from choir_gateway.channels.slack.rendering import to_blocks, to_plain
from choir_testing.slack.blocks import read_blocks


def containers(markdown: str) -> list[tuple[str, list[JsonValue]]]:
    """Return the containers of a text, each with its elements."""
    (block,) = to_blocks(parse_markdown(markdown))
    assert isinstance(block, dict) and isinstance(block["elements"], list)
    return [
        (str(it["type"]).removeprefix("rich_text_"), it["elements"])  # type: ignore[misc]
        for it in block["elements"]
        if isinstance(it, dict)
    ]


def text(content: str, **style: bool) -> JsonValue:
    element: dict[str, JsonValue] = {"type": "text", "text": content}
    return {**element, "style": dict(style)} if style else element


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("a **b** c", [text("a "), text("b", bold=True), text(" c")]),
        ("***both***", [text("both", bold=True, italic=True)]),
        ("~~s~~ `c`", [text("s", strike=True), text(" "), text("c", code=True)]),
        ("# Title", [text("Title", bold=True)]),
        ("- one\n- two", [text("• "), text("one"), text("\n"), text("• "), text("two")]),
        ("> quoted", [text("quoted", italic=True)]),
        ("*a_b* <@U1> :x:", [text("a_b", italic=True), text(" <@U1> :x:")]),
        ("[n](https://a.b/c)", [{"type": "link", "url": "https://a.b/c", "text": "n"}]),
        ("see https://a.b/c.", [text("see "), {"type": "link", "url": "https://a.b/c"}, text(".")]),
        ("`https://a.b`", [text("https://a.b", code=True)]),
    ],
)
def test_marks_are_beside_the_text(markdown: str, expected: list[JsonValue]) -> None:
    assert containers(markdown) == [("section", expected)]


def test_a_code_block_is_a_container_of_its_own() -> None:
    assert containers("before\n\n```py\nx = 1\n\ny\n```\n\nafter") == [
        ("section", [text("before")]),
        ("preformatted", [text("x = 1\n\ny")]),
        ("section", [text("after")]),
    ]


def test_a_text_of_choir_is_a_quotation() -> None:
    (block,) = to_blocks(make_own("one\n\ntwo"))
    assert read_blocks([block]).quotes == ["one\n\ntwo"]


def test_a_long_address_is_shown_as_text() -> None:
    address = "https://a.b/" + "x" * 3000
    ((_, elements),) = containers(f"[name]({address})")
    assert elements == [text(f"name ({address})")]


def test_a_plain_text_is_escaped_and_has_numbered_choices() -> None:
    buttons = (Button(label="Yes", data="y"), Button(label="<No>", data="n"))
    assert to_plain(make_plain("a < b & c"), buttons) == "a &lt; b &amp; c\n1. Yes\n2. &lt;No&gt;"


def test_a_card_is_one_message() -> None:
    assert len(plain_text(make_card_part("x" * 5_000).styled)) == LIMIT


PIECES = st.sampled_from(
    [
        *(
            "a",
            " ",
            "\n",
            "\n\n",
            "> ",
            "&gt; ",
            "```",
            "~~~",
            "`",
            "**",
            "*",
            "_",
            "~~",
            "# ",
            "- ",
        ),
        *("|", "[x](https://y.z)", "https://a.b/c*`|", "\\", "<@U1>", "<!here>", "😀", "\r", "1. "),
    ]
)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_every_text_makes_valid_blocks_without_a_quotation(markdown: str) -> None:
    runs = parse_markdown(markdown)
    if not plain_text(runs).strip():
        return
    shown = read_blocks(to_blocks(runs))
    assert shown.quotes == []
    assert "".join(shown.text.split()) == "".join(plain_text(runs).split())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
        ("&amp;lt;", "&lt;"),
        ("<https://a.b/?x=1&amp;y=2>", "https://a.b/?x=1&y=2"),
        ("<http://a.b|a.b>", "http://a.b"),
        ("<https://a.b|the page>", "the page (https://a.b)"),
        ("<mailto:x@a.b|x@a.b>", "x@a.b"),
        ("<@U1> <@U1|ann> <#C1|room>", "@U1 @ann #room"),
        ("<!here> <!date^1^{date}|today>", "@here today"),
    ],
)
def test_what_a_user_wrote_is_plain_text(written: str, expected: str) -> None:
    assert to_text(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [("!stop", "/stop"), ("!stop now", "/stop now"), ("!stopped", "!stopped"), ("!", "!")],
)
def test_a_known_command_gets_its_slash(written: str, expected: str) -> None:
    commands = (ChannelCommand(name="/stop", summary="stop", admin=True),)
    assert restore_command(written, commands) == expected
