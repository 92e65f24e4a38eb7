"""The lane of a further conversation is treated as that of the home conversation, not as a core job."""

from choir_agent.locks.claim import is_dirty_read, is_job_command
from choir_agent.models.lane_models import model_name_for_lane
from choir_agent.models.retry_policy import RETRIES, RetrySchedule
from choir_agent.provenance.taint_fold import apply_to_taint
from choir_agent.tools.registry import ToolRegistry
from choir_common.wire.events import CoreStarted, HeldLock, UserMessageStarted
from choir_common.wire.provenance import LaneTaint, SessionTaint
from choir_common.wire.schedules import WakeUp
from choir_models.model import NoModelResponse
from tests.unit.agent.test_registry import make_tool, names
from tests.unit.agent.test_retry_policy import model, pauses, settings

DESK = "edge:desk"


def test_it_has_the_model_of_the_home_conversation() -> None:
    own = settings(core_model_name="deep", core_model=model("deep", "third"))
    assert model_name_for_lane(own, DESK) == "main"
    assert model_name_for_lane(own, "core:desk") == "deep"


def test_it_gives_up_on_a_model_as_the_home_conversation_does() -> None:
    assert len(pauses(RetrySchedule(settings(), DESK), NoModelResponse("down"))) == RETRIES


def test_it_sees_the_tools_of_the_home_conversation() -> None:
    registry = ToolRegistry([make_tool("t.spawn", "edge"), make_tool("t.report", "core")])
    assert names(registry.view(DESK)) == ["t_spawn"]
    assert not registry.is_offered("t.report", DESK)


def test_it_may_read_files_while_a_core_job_has_the_workspace() -> None:
    assert is_dirty_read(DESK, HeldLock(resource="file:a", mode="S"))
    assert not is_job_command(DESK, HeldLock(resource="workspace", mode="X"))


def test_text_from_outside_taints_its_own_lane_and_the_jobs_that_it_starts() -> None:
    wake_up = WakeUp(schedule_id=1, summary="daily", by_agent=True)
    message = UserMessageStarted(turn_id="t1", inbox_id="i1", dm="desk", text="go", wake_up=wake_up)
    taint = apply_to_taint(SessionTaint(), DESK, message)
    assert taint.lane(DESK).outside
    assert taint.lane("edge") == LaneTaint()
    job = CoreStarted(job_id="j1", job_name="dig", call_id="c1", dm="desk", task_spec="dig")
    assert apply_to_taint(taint, DESK, job).lane("core:dig") == taint.lane(DESK)
    assert apply_to_taint(taint, "edge", job).lane("core:dig") == LaneTaint()
