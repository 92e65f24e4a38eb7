"""Messages that wait for their turn, in order. Their voice messages are transcribed meanwhile.

A few are transcribed at a time, so that a queue of them does not take the sum of their times. The lane is
free for reports, decisions and the messages before.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Self

from choir_agent.lanes.voice_notes import HeardMessage, VoiceNotes, has_voice
from choir_common.wire.signals import UserMessageSignal

MAX_QUEUED_MESSAGES = 1_000
"""Control stores messages until they are taken up; a longer queue here would only use memory."""
MAX_TRANSCRIPTIONS = 3
"""Messages of one conversation that are transcribed at a time: their files are in memory."""


@dataclass(slots=True)
class _Entry:
    message: UserMessageSignal
    has_voice: bool
    transcription: asyncio.Task[HeardMessage] | None = None

    @property
    def is_ready(self) -> bool:
        return not self.has_voice or bool(self.transcription and self.transcription.done())


class MessageQueue:
    """Queue of an edge lane; `async with` begins its transcriptions, and ends them.

    Messages arrive before the agent has the key of the transcription.
    """

    def __init__(self, notes: VoiceNotes, wake: asyncio.Event) -> None:
        self._notes = notes
        self._wake = wake
        self._entries: deque[_Entry] = deque()
        self._has_begun = False
        self._closed = False

    async def __aenter__(self) -> Self:
        self._has_begun = True
        self._start_transcriptions()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        tasks = [entry.transcription for entry in self._entries if entry.transcription is not None]
        if tasks:
            await asyncio.wait(tasks)

    @property
    def is_full(self) -> bool:
        """Return whether no further message may be appended. Control keeps those that are not."""
        return len(self._entries) >= MAX_QUEUED_MESSAGES

    @property
    def has_room(self) -> bool:
        """Return whether it is worth to fetch the messages that were not appended."""
        return len(self._entries) <= MAX_QUEUED_MESSAGES // 2

    def __contains__(self, inbox_id: str) -> bool:
        return any(entry.message.inbox_id == inbox_id for entry in self._entries)

    def put(self, message: UserMessageSignal) -> None:
        """Append a message, and wake the lane."""
        self._entries.append(_Entry(message, has_voice(message)))
        self._start_transcriptions()
        self._wake.set()

    @property
    def is_ready(self) -> bool:
        """Return whether the first message can be taken."""
        return not self._closed and bool(self._entries) and self._entries[0].is_ready

    @property
    def is_transcribing(self) -> bool:
        """Return whether the first message waits for its transcript."""
        return not self._closed and bool(self._entries) and not self._entries[0].is_ready

    @property
    def next_written(self) -> UserMessageSignal | None:
        """The first message if a person has written it; None for a voice message and a wake-up."""
        if self._closed or not self._entries or self._entries[0].has_voice:
            return None
        message = self._entries[0].message
        return message if message.wake_up is None else None

    def take(self) -> HeardMessage:
        """Remove and return the first message; call it only if that is ready."""
        transcript = self._result(self._entries[0])
        self._entries.popleft()
        return transcript

    def cancel_transcription(self) -> None:
        """Cancel the transcription for which the lane waits; its message then says so."""
        if self.is_transcribing and self._entries[0].transcription is not None:
            self._entries[0].transcription.cancel()

    def close(self) -> None:
        """End all transcriptions. Their messages are not consumed: the next session gets them."""
        self._closed = True
        for entry in self._entries:
            if entry.transcription is not None:
                entry.transcription.cancel()

    def _result(self, entry: _Entry) -> HeardMessage:
        if entry.transcription is None:
            return HeardMessage(entry.message)
        if entry.transcription.cancelled():
            return HeardMessage(self._notes.cancelled(entry.message))
        return entry.transcription.result()

    def _start_transcriptions(self) -> None:
        if not self._has_begun:
            return
        running = sum(
            entry.transcription is not None and not entry.is_ready for entry in self._entries
        )
        for entry in self._entries:
            if self._closed or running >= MAX_TRANSCRIPTIONS:
                return
            if entry.has_voice and entry.transcription is None:
                entry.transcription = asyncio.create_task(self._transcribe(entry.message))
                entry.transcription.add_done_callback(self._transcription_ended)
                running += 1

    async def _transcribe(self, message: UserMessageSignal) -> HeardMessage:
        return await self._notes.transcribe(message)

    def _transcription_ended(self, _: asyncio.Task[HeardMessage]) -> None:
        self._start_transcriptions()
        self._wake.set()
