"""What of a request reaches the agent, and how drafts become a text that only grows."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.errors import InvalidRequest
from choir_common.reply_text import ReplyText
from choir_control.api.openai.chat_request import parse_chat_request
from choir_control.api.openai.client_tasks import answer_task

USER = {"role": "user", "content": "hello"}


def body(*messages: object, **more: object) -> bytes:
    return json.dumps({"model": "main", "messages": list(messages), **more}).encode()


def test_a_draft_that_begins_again_is_held_back_until_it_agrees() -> None:
    text = ReplyText()
    assert text.grow("Good mo") == "Good mo"
    assert [text.grow(it) for it in ("", "Go", "Good morning")] == ["", "", "rning"]
    assert text.finish("Good morning, Ann.") == ", Ann."


def test_an_answer_that_differs_from_its_draft_follows_whole() -> None:
    text = ReplyText()
    assert text.grow("Let me see") == "Let me see"
    assert text.add("I look into the mail.") == "\n\nI look into the mail.\n\n"
    assert text.finish("Nothing new.") == "Nothing new."


@given(st.text(max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_prefixes_of_an_answer_in_any_order_become_the_answer_once(
    answer: str, ends: list[int]
) -> None:
    text = ReplyText()
    pieces = [text.grow(answer[:end]) for end in ends]
    assert "".join([*pieces, text.finish(answer)]) == answer


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}},
            "tool_choice",
        ),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"n": 2}, "n"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
    ],
)
def test_what_an_agent_cannot_promise_is_refused(more: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: "):
        parse_chat_request(body(USER, **more))


@pytest.mark.parametrize(
    "messages",
    [
        [USER, {"role": "assistant", "content": "hi"}],
        [USER, {"role": "tool", "content": "42", "tool_call_id": "1"}],
        [{"role": "system", "content": "Be short."}],
        [{"role": "user", "content": "  "}],
        [{"role": "user", "content": [{"type": "video", "url": "x"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc"}}]}],
        [{"role": "user", "content": None}],
    ],
)
def test_a_request_without_a_new_message_of_the_user_is_refused(messages: list[object]) -> None:
    with pytest.raises(InvalidRequest, match=r"^messages"):
        parse_chat_request(body(*messages)).read_message()


def test_a_system_message_after_the_users_does_not_hide_it() -> None:
    request = parse_chat_request(body(USER, {"role": "system", "content": "Be short."}))
    assert request.read_message().text == "hello"


def test_a_user_who_writes_about_tasks_is_not_taken_for_a_program() -> None:
    assert answer_task("### Task:\nwrite a poem\n### Output:\none verse") is None
