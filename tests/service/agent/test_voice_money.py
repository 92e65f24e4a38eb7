"""Hearing and speaking cost money: what is reserved, asked and given back."""

from choir_common.wire.config import Budgets
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject
from choir_common.wire.money import RELEASE_TOOL, MoneyReserved
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from tests.service.agent.running_agent import running_agent
from tests.service.agent.voice_room import Room, room
from tests.support.fake_speech import openai_error

__all__ = ["room"]


class Purse:
    """Control's budgets: they allow the calls whose kind is in `allowed`."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = set(allowed)
        self.reserved: dict[str, JsonObject] = {}
        self.released: list[str] = []

    def __call__(self, request: HostToolRequest) -> HostToolResponse:
        output = MoneyReserved(reservation=request.call_id)
        kind = str(request.input.get("kind"))
        if request.tool_name == RELEASE_TOOL:
            self.released.append(str(request.input["reservation"]))
        elif kind in self.allowed:
            self.reserved[request.call_id] = request.input
        else:
            text = f"No money for {kind}. Answer /continue to allow $1.00 more."
            output = MoneyReserved(
                budget="usd_per_day", limit_micro_usd=5, until=TOMORROW, text=text
            )
        return HostToolResponse(
            call_id=request.call_id, status="success", output=output.model_dump(mode="json")
        )

    def kinds(self) -> list[str]:
        return [str(arguments["kind"]) for arguments in self.reserved.values()]


TOMORROW = "2999-01-01T00:00:00.000000Z"
LIMITED = Budgets.model_validate_json('{"usd_per_day": 5}')


def limit(room: Room, *allowed: str) -> Purse:
    purse = Purse(*allowed)
    room.control.budgets, room.control.host_tool = LIMITED, purse
    return purse


async def test_hearing_and_speaking_are_reserved_and_their_events_settle_it(room: Room) -> None:
    purse = limit(room, "transcription", "chat", "speech")
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
    assert purse.kinds() == ["transcription", "chat", "speech"]
    heard, _, spoken = purse.reserved.values()
    assert (heard["name"], heard["audio_seconds"]) == ("ears", 2.4)
    assert (spoken["name"], spoken["characters"]) == ("loud", answer.usage[0].characters)
    (message,) = room.messages()
    settled = {message.usage[0].reservation, answer.usage[0].reservation}
    assert settled == {name for name, it in purse.reserved.items() if it["kind"] != "chat"}
    assert purse.released == []


async def test_without_money_for_hearing_the_user_is_asked_and_continues(room: Room) -> None:
    purse = limit(room, "chat", "speech")
    async with running_agent(room.control):
        await room.says("water the fig")
        asked = await room.answer()
        assert "No money for transcription. Answer /continue" in asked.text
        assert "send the message again" in asked.text
        assert room.speech.heard == [] and "model_output" not in room.control.types()
        purse.allowed.add("transcription")
        await room.control.say("/continue", "inb_2")
        await room.answer(2)
        await room.says("water the fig", "inb_3")
        assert (await room.answer(3)).text.startswith("**Watered**")
    types = room.control.types()
    assert types.count("budget_exhausted") == types.count("budget_granted") == 1


async def test_without_money_for_speaking_the_text_is_sent_and_the_user_asked(room: Room) -> None:
    purse = limit(room, "transcription", "chat")
    async with running_agent(room.control):
        await room.says("water the fig")
        answer = await room.answer()
        assert answer.text.startswith("**Watered**") and answer.attachments == ()
        await room.control.until(lambda: bool(room.notices()))
        assert "No money for speech. Answer /continue" in room.notices()[0]
        assert room.speech.spoken == []
        purse.allowed.add("speech")
        await room.control.say("/continue", "inb_2")
        await room.answer(2)
    assert "budget_granted" in room.control.types()


async def test_the_speech_tool_without_money_tells_the_model_and_the_user_may_allow_it(
    room: Room,
) -> None:
    purse = limit(room, "chat")
    async with running_agent(room.control):
        await room.control.say("say it aloud", "inb_1")
        await room.answer()
        results = [p for p in room.control.payloads() if isinstance(p, ToolResultCommitted)]
        assert [result.status for result in results] == ["refused"]
        assert "Ask the user: No money for speech." in str(results[0].output["message"])
        purse.allowed.add("speech")
        await room.control.say("/continue", "inb_2")
        await room.answer(2)
        await room.control.say("say it aloud", "inb_3")
        await room.answer(3)
    assert room.control.types().count("budget_granted") == 1
    spoken = [p for p in room.control.payloads() if isinstance(p, ToolResultCommitted)][-1]
    assert spoken.status == "success"
    assert spoken.usage[0].reservation in purse.reserved


async def test_a_failed_transcription_gives_its_money_back(room: Room) -> None:
    purse = limit(room, "transcription", "chat", "speech")
    room.speech.queued.append(openai_error(400, "x", "The audio is corrupt"))
    async with running_agent(room.control):
        await room.says("water the fig")
        await room.answer()
    assert purse.kinds() == ["transcription"]
    assert purse.released == list(purse.reserved)
