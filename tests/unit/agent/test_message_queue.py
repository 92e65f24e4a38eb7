"""Voice messages that arrive while the agent starts."""

import asyncio
from pathlib import Path

from choir_agent.lanes.message_queue import MessageQueue
from choir_agent.lanes.voice_notes import VoiceNotes
from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.speech.transcription import AudioTranscriber
from choir_agent.tools.workspace import Workspace
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config_parts import Budgets
from choir_common.wire.signals import UserMessageSignal
from tests.support.agent_fakes import settings_with


async def test_a_voice_message_is_transcribed_when_the_lane_has_begun_and_has_its_keys(
    tmp_path: Path,
) -> None:
    wake = asyncio.Event()
    notes = VoiceNotes(AudioTranscriber(Workspace(tmp_path), ApiClient()), settings_with(Budgets()))
    queue = MessageQueue(notes, wake)
    voice = ReceivedFile(name="voice.ogg", kind="voice", path="voice.ogg")
    queue.put(UserMessageSignal(inbox_id="inb_1", dm="dm", text="", attachments=(voice,)))
    for _ in range(20):
        await asyncio.sleep(0)
    was_waiting = queue.is_transcribing
    assert was_waiting
    # nobody knows yet what it says
    assert queue.next_written is None
    async with queue, asyncio.timeout(10):
        while queue.is_transcribing:
            wake.clear()
            await wake.wait()
        assert "no transcription model" in str(queue.take().message.attachments[0].transcription)
