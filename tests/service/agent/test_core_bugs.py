"""A bug ends the job it struck and nothing else; leaving the edge lane ends every job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from choir_agent.arbiter.approval_client import ApprovalClient
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.call_execution import FailureHints
from choir_agent.arbiter.tool_policy import ToolPolicy
from choir_agent.budgets.limits import TokenBudget
from choir_agent.budgets.spending import SpendingReader
from choir_agent.control_client.control_client import ControlClient
from choir_agent.lanes.core_job import CoreJobFactory, RunningHarness
from choir_agent.lanes.core_job_manager import CoreJobManager
from choir_agent.lanes.draft_reporter import DraftReporter
from choir_agent.lanes.model_caller import ModelCaller
from choir_agent.lanes.picture_describer import PictureDescriber
from choir_agent.lanes.skill_steps import SkillStepper
from choir_agent.locks.lock_manager import LockManager
from choir_agent.log.committed_event import EventListeners
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_agent.log.session_state import JobState, TurnState
from choir_agent.models.failure_messages import OutageTracker
from choir_agent.models.model_wrappers import MeteredModel
from choir_agent.prompt.history_format import HistoryFormat
from choir_agent.prompt.prompt_notes import LanePrompt
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.workspace import Workspace
from choir_agent.working_memory.token_estimator import TokenEstimator
from choir_agent.working_memory.working_memory import SnapshotWriter, WorkingMemory
from choir_common.clock import SystemClock
from choir_common.lanes import core_lane
from choir_common.redactor import Redactor
from choir_common.wire.events import CoreOutcome, CoreStarted
from choir_local.rehearsal.score import Score
from choir_models.fallback import CoolDowns
from choir_models.openai.model import OpenAiModel
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import AGENT, DM, SESSION, run_control
from tests.support.agent_fakes import (
    FixedHeartbeatSettings,
    FixedSettings,
    NoMoneyBudget,
    NoTokenCounter,
    SilentStatus,
)

SCORE = Score.model_validate(
    {
        "rules": [{"when": {"contains": "hang"}, "then": [{"hang": True, "say": "never"}]}],
        "otherwise": [{"say": "well done"}],
    }
)


class NoHarnesses:
    def for_job(self, job: JobState) -> RunningHarness:
        raise AssertionError("no job names a harness")


@dataclass
class Office:
    """Core jobs without an edge lane; a job named `broken` has a bug where its prompt is made."""

    arbiter: Arbiter
    jobs: CoreJobManager
    log: SessionLog

    def start(self, name: str) -> None:
        started = CoreStarted(
            job_id=f"job_{name}", job_name=name, call_id="c", dm=DM, task_spec=name
        )
        self.arbiter.commit("edge", started)

    def outcomes(self) -> dict[str, CoreOutcome]:
        events = [entry.event() for entry in self.log.entries]
        ended = [event.payload for event in events if event.type == "core_stopped"]
        return {str(p["job_name"]): p["outcome"] for p in ended}  # type: ignore[misc]


class BuggyPrompts:
    """Prompts of core jobs, with a bug for one job."""

    def prompt_for(self, work: TurnState | JobState, history: HistoryFormat) -> LanePrompt:
        assert isinstance(work, JobState)
        if work.name == "broken":
            raise RuntimeError("a bug")
        return LanePrompt((b'{"role":"user","content":"%b"}' % work.name.encode(),))


class NoShrinker:
    """A lane that cannot be made shorter."""

    async def shrink(self, lane: str) -> bool:
        return False


@asynccontextmanager
async def open_office() -> AsyncIterator[Office]:
    async with run_rehearsal(SCORE) as model_endpoint, run_control(model_endpoint) as stand_in:
        control, listeners, model = ControlClient(stand_in.boot()), EventListeners(), OpenAiModel()
        log = SessionLog(SESSION, clock=SystemClock(), listener=listeners, redactor=Redactor())
        replication = LogReplicator(
            control=control,
            session_log=log,
            settings=FixedHeartbeatSettings(),
            clock=SystemClock(),
            agent_id=AGENT,
            epoch=1,
        )
        policy, workspace = (
            ToolPolicy(ToolRegistry([]), SkillRegistry(())),
            Workspace(stand_in.workspace),
        )
        settings = FixedSettings(stand_in.settings())
        arbiter = Arbiter(
            session_log=log,
            replication=replication,
            policy=policy,
            workspace=workspace,
            locks=LockManager(),
            approvals=ApprovalClient(control),
            settings=settings,
            snapshots=SnapshotWriter(WorkingMemory()),
            failure_hints=FailureHints(control),
            spending=SpendingReader(control),
        )
        purse = TokenBudget(log, settings)
        metered = MeteredModel(
            model,
            budget=purse,
            money=NoMoneyBudget(),
            estimator=TokenEstimator(),
            counter=NoTokenCounter(),
            committer=arbiter,
            clock=SystemClock(),
        )
        steps = SkillStepper(arbiter, policy.skills, settings)
        caller = ModelCaller(
            arbiter=arbiter,
            model=metered,
            prompts=BuggyPrompts(),
            tools=policy.registry,
            settings=settings,
            shrinker=NoShrinker(),
            outages=OutageTracker(SystemClock(), Redactor()),
            describer=PictureDescriber(
                arbiter=arbiter,
                memory=WorkingMemory(),
                model=metered,
                settings=settings,
                cool_downs=CoolDowns(SystemClock()),
            ),
            drafts=DraftReporter(control, Redactor(), settings),
            cool_downs=CoolDowns(SystemClock()),
        )
        factory = CoreJobFactory(
            arbiter=arbiter,
            model=caller,
            harnesses=NoHarnesses(),
            skills=steps,
            tools=policy.registry,
            settings=settings,
            clock=SystemClock(),
            status=SilentStatus(),
        )
        jobs = CoreJobManager(arbiter, factory)
        listeners.add(jobs)
        yield Office(arbiter, jobs, log)
        await model.close()
        await control.close()
        workspace.close()


async def test_a_bug_ends_the_job_it_struck_and_no_other() -> None:
    async with open_office() as office, office.jobs:
        for name in ("broken", "sound"):
            office.start(name)
        async with asyncio.timeout(60):
            while len(office.outcomes()) < 2:
                await asyncio.sleep(0.01)
    assert office.outcomes() == {"broken": "error", "sound": "completed"}


async def test_jobs_end_with_their_lane_and_stay_open_in_the_log() -> None:
    names = ("hang-one", "hang-two", "hang-three")
    async with open_office() as office:
        async with asyncio.timeout(60), office.jobs:
            for name in names[:2]:
                office.start(name)
            await asyncio.sleep(0.05)
            # this one has not had a moment to begin
            office.start(names[2])
        office.start("late")
        await asyncio.sleep(0.05)
        running = {task.get_name() for task in asyncio.all_tasks()}
        assert running.isdisjoint(core_lane(name) for name in (*names, "late"))
        assert [job.name for job in office.arbiter.state.jobs] == [*names, "late"]
    assert office.outcomes() == {}
