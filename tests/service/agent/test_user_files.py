"""Files of the user: models that see get pictures, others a description, and documents become text."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from PIL import Image

from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import AttachmentsRead, PictureDescribed, parse_payload
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.strict_providers import (
    Message,
    Rules,
    StrictProvider,
    lenient,
    strict_provider,
    text_of,
)
from tests.service.memory import documents

PHOTO = ReceivedFile(name="cat.png", kind="photo", mime="image/png", path="in/cat.png")


def model(provider: StrictProvider, name: str) -> ModelConfig:
    return ModelConfig(model=name, endpoint=provider.endpoint)


def draw(control: ControlStandIn, path: str = PHOTO.path, color: str = "red") -> Path:
    target = control.workspace / path
    target.parent.mkdir(exist_ok=True)
    Image.new("RGB", (60, 40), color).save(target)
    return target


def parts(message: Message) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else []


def pictures(messages: Sequence[Message]) -> list[str]:
    return [
        part["image_url"]["url"]
        for message in messages
        for part in parts(message)
        if part["type"] == "image_url"
    ]


async def test_a_model_that_sees_gets_the_picture_now_later_and_after_a_crash() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        control.bound = {"model": model(provider, "gpt-4o-mini")}
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
        control.next_epoch()
        async with running_agent(control):
            await control.say("sure?", "inb_2")
            await control.replied(2)
    first, second = provider.requests
    (shown,) = pictures(first)
    assert shown.startswith("data:image/png;base64,")
    assert second[: len(first)] == first
    assert "what is this?" in text_of(first[-1]) and "cat.png" in text_of(first[-1])
    logged = orjson.dumps([event.payload for event in control.events]).decode()
    assert "base64" not in logged


async def test_a_picture_that_is_gone_is_replaced_by_a_remark() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        control.bound = {"model": model(provider, "gpt-4o-mini")}
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
    (request,) = provider.requests
    assert not pictures(request)
    assert "The picture in/cat.png is not shown" in text_of(request[-1])


async def test_a_model_that_cannot_see_gets_a_description_once_and_it_is_charged() -> None:
    async with (
        strict_provider(lenient()) as eye,
        strict_provider(lenient()) as provider,
        run_control(provider.endpoint) as control,
    ):
        control.bound = {"vision_model": model(eye, "a-model-that-sees")}
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
            await control.say("sure?", "inb_2")
            await control.replied(2)
    assert len(eye.requests) == 1 and len(pictures(eye.requests[0])) == 1
    first, second = provider.requests
    assert not pictures(second) and second[: len(first)] == first
    text = text_of(first[-1])
    assert 'The picture "cat.png", described by a-model-that-sees' in text
    assert "\n> answer 1" in text
    (event,) = [p for p in control.payloads() if isinstance(p, PictureDescribed)]
    assert (event.text, event.prompt_tokens, event.completion_tokens) == ("answer 1", 10, 10)


async def test_without_any_model_that_sees_the_model_is_told_so() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
    (request,) = provider.requests
    assert "you cannot see pictures" in text_of(request[-1])


async def test_a_failed_description_is_told_and_the_message_is_answered() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        nobody = ModelConfig(model="eye", endpoint="http://127.0.0.1:9/v1", timeout_ms=2_000)
        control.bound = {
            "vision_model": nobody,
            "features": control.settings().features.model_copy(update={"model_retries": False}),
        }
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            (answer,) = await control.replied(1)
    assert answer.kind == "answer"
    assert "could not be described: eye failed" in text_of(provider.requests[0][-1])


def blind() -> Rules:
    """Refuse pictures, as a server does whose model cannot see."""

    def fault(messages: Sequence[Message], sent: dict[int, Message]) -> str | None:
        return "unknown variant `image_url`, expected `text`" if pictures(messages) else None

    return replace(lenient(), fault=fault)


async def test_a_model_taken_for_one_that_sees_is_asked_again_without_pictures_and_remembered() -> (
    None
):
    async with strict_provider(blind()) as provider, run_control(provider.endpoint) as control:
        control.bound = {"model": model(provider, "gpt-4o-mini")}
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
            await control.say("sure?", "inb_2")
            await control.replied(2)
    assert len(provider.refusals) == 1 and len(provider.requests) == 3
    assert "you cannot see pictures" in text_of(provider.requests[1][-1])


async def test_a_model_taken_for_one_that_sees_gets_a_description_at_once() -> None:
    async with (
        strict_provider(lenient()) as eye,
        strict_provider(blind()) as provider,
        run_control(provider.endpoint) as control,
    ):
        control.bound = {
            "model": model(provider, "gpt-4o-mini"),
            "vision_model": model(eye, "a-model-that-sees"),
            "vision_model_name": "eye",
        }
        draw(control)
        async with running_agent(control):
            await control.say("what is this?", attachments=(PHOTO,))
            await control.replied(1)
    assert "described by a-model-that-sees" in text_of(provider.requests[1][-1])


async def test_one_refused_picture_does_not_blind_a_model_that_sees() -> None:
    def fault(messages: Sequence[Message], sent: dict[int, Message]) -> str | None:
        is_large = any("huge.png" in text_of(message) for message in messages)
        return "image exceeds 5 MB maximum" if is_large and pictures(messages) else None

    huge = PHOTO.model_copy(update={"name": "huge.png", "path": "in/huge.png"})
    async with (
        strict_provider(replace(lenient(), fault=fault)) as provider,
        run_control(provider.endpoint) as control,
    ):
        control.bound = {"model": model(provider, "gpt-4o-mini")}
        draw(control, huge.path)
        async with running_agent(control):
            await control.say("what is this?", attachments=(huge,))
            (answer,) = await control.replied(1)
            await control.say("and without it?", "inb_2")
            await control.replied(2)
    assert answer.kind == "answer"
    # asked with the picture, and again without it, both times
    assert [len(pictures(request)) for request in provider.requests] == [1, 0, 1, 0]


async def test_a_tool_shows_a_picture_behind_all_results_and_none_that_changed() -> None:
    def look(message: Message, number: int) -> None:
        for call in message.get("tool_calls") or ():
            call["function"]["arguments"] = '{"path":"in/cat.png"}'

    async with (
        strict_provider(replace(lenient(), decorate=look)) as provider,
        run_control(provider.endpoint) as control,
    ):
        control.bound = {"model": model(provider, "gpt-4o-mini")}
        draw(control)
        async with running_agent(control):
            await control.say("use your eyes")
            await control.replied(1)
        draw(control, color="blue")
        control.next_epoch()
        async with running_agent(control):
            await control.say("and now?", "inb_2")
            await control.replied(2)
    seen, last = provider.requests[1], provider.requests[-1]
    roles = [message["role"] for message in seen][-4:]
    assert roles == ["assistant", "tool", "tool", "user"]
    assert len(pictures(seen)) == 2 and not pictures(seen[:-1])
    assert not pictures(last)
    assert any("has changed since" in text_of(m) for m in last)


@pytest.mark.parametrize("name", ["plan.docx", "table.xlsx", "notes.md"])
async def test_a_document_is_read_before_the_model_is_asked(name: str) -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        target = control.workspace / "in" / name
        target.parent.mkdir()
        match target.suffix:
            case ".docx":
                documents.write_word(target)
            case ".xlsx":
                documents.write_sheet(target)
            case _:
                target.write_text("# Ladder\n" + "long " * 10_000)
        file = ReceivedFile(name=name, kind="document", path=f"in/{name}")
        async with running_agent(control):
            await control.say("read it", attachments=(file,))
            await control.replied(1)
    text = text_of(provider.requests[0][-1])
    (event,) = [p for p in map(parse_payload, control.events) if isinstance(p, AttachmentsRead)]
    assert f'[Choir] The text of "{name}"' in text
    match target.suffix:
        case ".docx":
            assert "> Keep it at 2 bar." in text
        case ".xlsx":
            assert "> ladder | 79" in text
        case _:
            assert "of 50,009 characters (choir.fs.read reads on)" in text
            assert (len(event.texts[0].text), event.texts[0].total_chars) == (16_000, 50_009)


async def test_a_hostile_document_is_named_and_the_message_is_answered() -> None:
    async with strict_provider(lenient()) as provider, run_control(provider.endpoint) as control:
        target = control.workspace / "in" / "x.pdf"
        target.parent.mkdir()
        target.write_bytes(b"%PDF-1.7 nothing")
        file = ReceivedFile(name='x".pdf', kind="document", path="in/x.pdf")
        async with running_agent(control):
            await control.say("read it", attachments=(file,))
            (answer,) = await control.replied(1)
    assert answer.kind == "answer"
    text = text_of(provider.requests[0][-1])
    assert '[Choir] The text of "x\\".pdf" is not here: it is not a PDF that can be read' in text
