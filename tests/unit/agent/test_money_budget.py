"""The agent reserves money at control before a call, and asks the user at a limit."""

from datetime import UTC, datetime

import pytest

from choir_agent.budgets.money import (
    MoneyBudgetExceeded,
    MoneyReservations,
    PlannedCall,
    parse_money_grant,
)
from choir_agent.log.session_state import SessionState
from choir_common.errors import Unavailable
from choir_common.wire.config import Budgets
from choir_common.wire.money import RELEASE_TOOL, RESERVE_TOOL, MoneyReserved
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_models.model import ModelFailed
from tests.support.agent_fakes import settings_with

LIMITED = Budgets.model_validate_json('{"usd_per_day": 5}')
CALL = PlannedCall(
    name="m", job_id="job-1", timeout_s=720, prompt_tokens=1_000, completion_tokens=200
)
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


class ScriptedControl:
    """Answers host tools; the first `failures` requests fail."""

    def __init__(self, answer: MoneyReserved, failures: int = 0) -> None:
        self.requests: list[HostToolRequest] = []
        self._answer, self._failures = answer, failures

    async def use_host_tool(self, request: HostToolRequest, timeout_s: float) -> HostToolResponse:
        self.requests.append(request)
        if len(self.requests) <= self._failures:
            raise Unavailable("down")
        return HostToolResponse(
            call_id=request.call_id,
            status="success",
            output=self._answer.model_dump(mode="json"),
        )

    @property
    def tools(self) -> list[str]:
        return [request.tool_name for request in self.requests]


class WaitingLog:
    """A log that remembers which revisions were waited for."""

    def __init__(self) -> None:
        self.waited_for: list[int] = []

    async def durable(self, rev: int) -> None:
        self.waited_for.append(rev)


def make_money(
    control: ScriptedControl, budgets: Budgets, log: WaitingLog | None = None
) -> MoneyReservations:
    return MoneyReservations(
        control=control,  # type: ignore[arg-type]
        settings=settings_with(budgets),
        session=GrantedSession(),
        replication=log or WaitingLog(),
    )


class GrantedSession:
    """A session in which the user extended a budget in money."""

    state = SessionState(rev=9, money_grant_rev=7)


async def test_a_grant_is_durable_before_control_is_asked() -> None:
    log = WaitingLog()
    async with make_money(ScriptedControl(MoneyReserved(reservation="r")), LIMITED, log).reserve(
        CALL
    ):
        assert log.waited_for == [7]


async def test_without_a_limit_in_money_control_is_not_asked() -> None:
    control = ScriptedControl(MoneyReserved(reservation="r"))
    money = make_money(control, Budgets())
    async with money.reserve(CALL) as reservation:
        assert reservation.id == ""
    assert not control.requests


async def test_an_unreachable_control_is_asked_again_under_the_same_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("choir_common.backoff.Backoff.pause_s", lambda self: 0.0)
    control = ScriptedControl(MoneyReserved(reservation="r"), failures=2)
    money = make_money(control, LIMITED)
    async with money.reserve(CALL) as reservation:
        assert reservation.id == "r"
    assert control.tools == [RESERVE_TOOL] * 3
    assert len({request.call_id for request in control.requests}) == 1
    assert control.requests[0].input["job_id"] == "job-1"


async def test_a_failed_call_gives_its_reservation_back() -> None:
    control = ScriptedControl(MoneyReserved(reservation="r"))
    money = make_money(control, LIMITED)
    with pytest.raises(ModelFailed):
        async with money.reserve(CALL):
            raise ModelFailed("no")
    assert control.tools == [RESERVE_TOOL, RELEASE_TOOL]


async def test_a_refusal_is_recorded_once_and_asks_the_user() -> None:
    refusal = MoneyReserved(
        budget="usd_per_day", limit_micro_usd=5_000_000, until="2026-11-24T00:00:00Z", text="Ask."
    )
    control = ScriptedControl(refusal)
    money = make_money(control, LIMITED)
    with pytest.raises(MoneyBudgetExceeded) as refused:
        async with money.reserve(CALL):
            raise AssertionError("the call was made")
    assert refused.value.message == "Ask."
    event = refused.value.event(SessionState(), LIMITED, dm="dm", lane="edge")
    assert event is not None and (event.budget, event.limit) == ("usd_per_day", 5_000_000)
    known = SessionState(
        exhausted="usd_per_day", exhausted_limit=5_000_000, exhausted_until=event.until
    )
    assert refused.value.event(known, LIMITED, dm="dm", lane="edge") is None


@pytest.mark.parametrize(
    ("budget", "until", "text", "grants"),
    [
        ("usd_per_day", "2026-11-24T00:00:00Z", "yes", True),
        ("usd_per_day", "2026-11-24T00:00:00Z", "/continue", True),
        ("usd_per_day", "2026-11-24T00:00:00Z", "why?", False),
        # the day is over: this yes means something else
        ("usd_per_day", "2026-11-23T00:00:00Z", "yes", False),
        # the edge lane works on, so a yes may mean something else
        ("usd_per_job", "", "yes", False),
        ("usd_per_job", "", "/continue", True),
        ("total_session_tokens", "", "/continue", False),
        (None, "", "/continue", False),
    ],
)
def test_a_message_extends_a_budget_only_if_it_means_that(
    budget: str | None, until: str, text: str, grants: bool
) -> None:
    state = SessionState(exhausted=budget, exhausted_until=until)
    grant = parse_money_grant(text, state, NOW, lane="edge")
    assert (grant is not None) is grants
    if grant is not None:
        assert grant.event("inbox").budget == budget


async def test_a_call_that_fails_after_the_limits_were_removed_tells_its_own_failure() -> None:
    control = ScriptedControl(MoneyReserved())
    with pytest.raises(ModelFailed, match="no answer"):
        async with make_money(control, LIMITED).reserve(CALL):
            raise ModelFailed("no answer")
    assert control.tools == [RESERVE_TOOL]
