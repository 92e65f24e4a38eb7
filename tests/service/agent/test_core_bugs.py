"""A bug ends the job it struck and nothing else; leaving the edge lane ends every job."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from choir_agent.arbiter.approvals import Approvals
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.arbiter.past_failures import PastFailures
from choir_agent.arbiter.policy import Policy
from choir_agent.budgets.reserve import Purse
from choir_agent.control.client import Control
from choir_agent.lanes.core import CoreJob
from choir_agent.lanes.jobs import CoreJobs
from choir_agent.lanes.skill_steps import SkillSteps
from choir_agent.lanes.think import Thinker
from choir_agent.locks.locks import Locks
from choir_agent.log.listeners import Listeners
from choir_agent.log.session_log import SessionLog
from choir_agent.log.state import JobState, core_lane
from choir_agent.memory.snapshots import Snapshots
from choir_agent.memory.tokens import TokenMeter
from choir_agent.memory.working import WorkingMemory
from choir_agent.models.metered import MeteredModel
from choir_agent.models.openai_model import OpenAiModel
from choir_agent.prompt.assemble import Prompt
from choir_agent.prompt.history import HistoryFormat
from choir_agent.replication.replicate import Replication
from choir_agent.settings import CurrentSettings
from choir_agent.skills.registry import Skills
from choir_agent.skills.shapes import faults
from choir_agent.tools.registry import Registry
from choir_agent.tools.workspace import Workspace
from choir_common.clock import SystemClock
from choir_common.wire.events import CoreOutcome, CoreStarted
from choir_local.rehearsal.run import run_rehearsal
from choir_local.rehearsal.score import Score
from tests.service.agent.control_stand_in import AGENT, DM, SESSION, run_control
from tests.support.uncounted import uncounted

SCORE = Score.model_validate(
    {
        "rules": [{"when": {"contains": "hang"}, "then": [{"hang": True, "say": "never"}]}],
        "otherwise": [{"say": "well done"}],
    }
)


@dataclass
class Office:
    """Core jobs without an edge lane; a job named `broken` has a bug where its prompt is made."""

    arbiter: Arbiter
    jobs: CoreJobs
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


def prompt_of(job: JobState) -> Callable[[HistoryFormat], Prompt]:
    def make(_: HistoryFormat) -> Prompt:
        if job.name == "broken":
            raise RuntimeError("a bug")
        return Prompt((b'{"role":"user","content":"%b"}' % job.name.encode(),))

    return make


@asynccontextmanager
async def open_office() -> AsyncIterator[Office]:
    async with run_rehearsal(SCORE) as model_endpoint, run_control(model_endpoint) as stand_in:
        control, listeners, model = Control(stand_in.boot()), Listeners(), OpenAiModel()
        log = SessionLog(SESSION, SystemClock(), listeners.tell, str)
        replication = Replication(
            control, log, SystemClock(), AGENT, 1, lambda: 1, lambda: 0.2, lambda: None
        )
        policy, workspace = Policy(Registry([]), Skills(())), Workspace(stand_in.workspace)
        settings = CurrentSettings(stand_in.settings())
        arbiter = Arbiter(
            log,
            replication,
            policy,
            workspace,
            Locks(),
            Approvals(control),
            lambda: settings,
            Snapshots(WorkingMemory()),
            PastFailures(control),
        )
        purse = Purse(lambda: arbiter.state, lambda: settings.settings.budgets)
        metered = MeteredModel(model, purse, TokenMeter(), uncounted)
        steps = SkillSteps(arbiter, policy.skills, lambda: settings)

        def make_job(job: JobState) -> CoreJob:
            thinker = Thinker(
                job.lane,
                arbiter,
                metered,
                prompt_of(job),
                lambda name: name,
                lambda: settings,
            )
            return CoreJob(
                job,
                arbiter,
                thinker,
                steps,
                lambda: settings,
                SystemClock(),
                faults,
                lambda lane, state: None,
            )

        jobs = CoreJobs(arbiter, make_job)
        listeners.add(jobs.take_in)
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
