"""The edge lanes of all conversations: each runs in a task of its own, and none waits for another.

The lane of the home conversation exists from the start. Those of others are created with their first signal,
or at the start if the log has unfinished work of theirs. The core jobs run inside `run`, too.
"""

import asyncio

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.lanes.attachment_reader import AttachmentReader
from choir_agent.lanes.core_job_manager import CoreJobManager
from choir_agent.lanes.edge_lane import EdgeLane, LeftMessages
from choir_agent.lanes.lane_status import LaneStateRecorder
from choir_agent.lanes.model_caller import ModelCaller
from choir_agent.lanes.reminder_lookup import ReminderLookup
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.lanes.voice_answers import VoiceAnswers
from choir_agent.lanes.voice_notes import VoiceNotes
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.settings import SettingsSource
from choir_common.clock import Clock
from choir_common.lanes import EDGE_LANE, edge_lane, is_edge


class EdgeLaneFactory:
    """Factory of the lanes of conversations."""

    def __init__(
        self,
        *,
        arbiter: Arbiter,
        model: ModelCaller,
        skills: SkillStepper,
        attachments: AttachmentReader,
        reminders: ReminderLookup,
        voice_notes: VoiceNotes,
        voice_answers: VoiceAnswers,
        settings: SettingsSource,
        clock: Clock,
        status: LaneStateRecorder,
        left_messages: LeftMessages,
    ) -> None:
        self._arbiter = arbiter
        self._model = model
        self._skills = skills
        self._attachments = attachments
        self._reminders = reminders
        self._voice_notes = voice_notes
        self._voice_answers = voice_answers
        self._settings = settings
        self._clock = clock
        self._status = status
        self._left_messages = left_messages

    def create(self, lane: str) -> EdgeLane:
        """Return the lane of a conversation, which does not run yet."""
        return EdgeLane(
            lane,
            arbiter=self._arbiter,
            model=self._model,
            skills=self._skills,
            attachments=self._attachments,
            reminders=self._reminders,
            voice_notes=self._voice_notes,
            voice_answers=self._voice_answers,
            settings=self._settings,
            clock=self._clock,
            status=self._status,
            left_messages=self._left_messages,
        )


class ConversationLanes:
    """The edge lanes of this session, by their names."""

    def __init__(
        self, *, factory: EdgeLaneFactory, arbiter: Arbiter, jobs: CoreJobManager, home_dm: str
    ) -> None:
        self._factory = factory
        self._arbiter = arbiter
        self._jobs = jobs
        self._home_dm = home_dm
        lanes = (EDGE_LANE, *sorted(arbiter.state.open_edges - {EDGE_LANE}))
        self._lanes = {lane: factory.create(lane) for lane in lanes}
        self._stopping = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None

    def name_of(self, dm: str) -> str:
        """Return the name of a conversation's lane; an empty `dm` is the home conversation."""
        return edge_lane(dm or self._home_dm, self._home_dm)

    def of(self, lane: str) -> EdgeLane:
        """Return an edge lane; it is created, and runs, if it is new."""
        if lane not in self._lanes:
            self._lanes[lane] = self._factory.create(lane)
            if self._stopping.is_set():
                self._lanes[lane].stop()
            if self._tasks is not None:
                self._start(lane, self._tasks)
        return self._lanes[lane]

    def on_event(self, event: CommittedEvent) -> None:
        """Wake the lanes that may have work after a committed event: one has a report to make."""
        for lane in [event.lane] if is_edge(event.lane) else self._lanes:
            if lane in self._lanes:
                self._lanes[lane].wake()

    def recheck_parked_turns(self) -> None:
        """Resume the parked turns of all lanes in order to check their calls again."""
        for lane in self._lanes.values():
            lane.recheck_parked_turns()

    async def run(self) -> None:
        """Run all lanes until `stop` is called and their open turns have ended."""
        async with self._jobs, asyncio.TaskGroup() as tasks:
            for lane in self._lanes:
                self._start(lane, tasks)
            self._tasks = tasks
            await self._stopping.wait()
            self._tasks = None
        for edge in self._lanes.values():
            edge.terminate()

    def stop(self) -> None:
        """Take no more messages. Open turns still finish, and core jobs continue until then."""
        for lane in self._lanes.values():
            lane.stop()
        self._stopping.set()

    def suspend(self) -> None:
        """Interrupt the turns without writing events about it: the next epoch resumes them."""
        self._arbiter.suspend()
        for lane in self._lanes.values():
            lane.interrupt()

    def _start(self, lane: str, tasks: asyncio.TaskGroup) -> None:
        tasks.create_task(self._lanes[lane].run(), name=lane)
