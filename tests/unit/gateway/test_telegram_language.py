"""The language of a user's Telegram, which it says in each update."""

from datetime import UTC, datetime

import pytest
from telegram import Chat, Message, Update, User

from choir_common.wire.messages import DmBinding
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.telegram.update_parser import parse_message, parse_stranger


@pytest.mark.parametrize(("code", "language"), [("de", "de"), ("pt-br", "pt-br"), (None, "")])
def test_the_language_of_the_app_goes_along_with_the_message(
    code: str | None, language: str
) -> None:
    user = User(7, "Ada", is_bot=False, language_code=code)
    message = Message(1, datetime.now(UTC), Chat(7, "private"), text="hello", from_user=user)
    update, people = Update(1, message=message), ConversationDirectory()
    stranger = parse_stranger(update, "bot", people)
    assert stranger is not None and stranger.language == language
    people.replace([DmBinding(name="ada", gateway="bot", user_id="7", admin=False)])
    parsed = parse_message(update, "bot", people, None)
    assert parsed is not None and parsed.language == language
