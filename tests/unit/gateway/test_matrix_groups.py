"""How people address the bot in a group on Matrix, and the addresses of groups and messages."""

from typing import Any

import pytest

from choir_gateway.channels.matrix.addresses import (
    MatrixMessageId,
    format_message_id,
    is_address,
    parse_message_id,
)
from choir_gateway.channels.matrix.events import MessageContent
from choir_gateway.channels.matrix.group_messages import BotNames, is_addressed, remove_name

NAMES = BotNames("@choir:example.org", "Choir (bot)")
BOT, ANN = {"user_ids": [NAMES.user_id]}, {"user_ids": ["@ann:example.org"]}


@pytest.mark.parametrize(
    ("body", "mentions", "is_for_bot", "text"),
    [
        ("what is new?", BOT, True, "what is new?"),
        ("Choir (bot): what is new?", BOT, True, "what is new?"),
        ("@choir:example.org what is new?", BOT, True, "what is new?"),
        ("choir, what is new?", {}, True, "what is new?"),
        ("CHOIR:what is new?", ANN, True, "what is new?"),
        ("choir:", {}, True, "choir:"),
        ("choirs: what is new?", {}, False, "choirs: what is new?"),
        ("the choir: what is new?", {}, False, "the choir: what is new?"),
        ("@choir: what is new?", {}, True, "what is new?"),
        ("@choir:example.org", {}, False, "@choir:example.org"),
        ("@choir:example.organ: hello", {}, False, "@choir:example.organ: hello"),
        ("@choir:example.org.uk: hello", {}, False, "@choir:example.org.uk: hello"),
        # before Matrix 1.7 there was no field for mentions
        ("ask @choir:example.org!", None, True, "ask @choir:example.org!"),
        ("ask @choir:example.organ", None, False, "ask @choir:example.organ"),
        ("hello", "not a mention", False, "hello"),
        ("hello", {"user_ids": NAMES.user_id}, False, "hello"),
    ],
)
def test_the_bot_is_addressed_by_a_mention_or_its_name_at_the_beginning(
    body: str, mentions: Any, is_for_bot: bool, text: str
) -> None:
    content = MessageContent.model_validate({"body": body, "m.mentions": mentions})
    assert is_addressed(content, NAMES) is is_for_bot
    assert remove_name(body, NAMES) == text


def test_the_id_of_a_message_in_a_thread_contains_the_thread() -> None:
    for event_id, thread in (
        ("$a", None),
        ("$a", "$b"),
        ("$a/c", "$b/d"),
        ("$a:x.org", "$b:x.org"),
    ):
        text = format_message_id(event_id, thread)
        assert parse_message_id(text) == MatrixMessageId(event_id, thread)
    assert format_message_id("$a", "$" + "b" * 255) == "$a", "control takes 256 characters"
    assert parse_message_id("17") is None is parse_message_id(None)


@pytest.mark.parametrize(
    ("address", "is_possible"),
    [
        ("@ann:example.org", True),
        ("!abc:example.org", True),
        ("!abc:example.org/$root", True),
        ("!31hneApxJ_1o-63DmFrpeqnkFfWppnzWso1JvH3ogLM", True),
        ("!abc:example.org/root", False),
        ("#team:example.org", False),
        ("7", False),
    ],
)
def test_addresses_are_users_rooms_and_threads(address: str, is_possible: bool) -> None:
    assert is_address(address) is is_possible
