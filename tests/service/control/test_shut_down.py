"""When choird stops, its agents stop first, in good order; when it starts, they run again."""

import asyncio

from choir_common.wire.events import SessionStopped
from choir_common.wire.rpc import TerminateRequest
from choir_common.wire.signals import ShutdownSignal
from choir_control.agents.sessions.record import REASON_RESTART, REASON_SHUTDOWN
from choir_control.settings import ControlSettings
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until


def patient(world: World, seconds: float) -> ControlSettings:
    return world.settings.model_copy(update={"agents_stop_s": seconds})


async def end_when_told(world: World, agent: AgentHand, after: int | None = None) -> None:
    """Do what an agent does at a shutdown signal, the first one behind `after`."""
    signal = await agent.next_signal(after)
    assert signal.body == ShutdownSignal(reason=REASON_SHUTDOWN)
    agent.add(SessionStopped(reason=REASON_SHUTDOWN, summary="all is well"), "session")
    await agent.flush()
    await agent.call("TERMINATE_SELF", TerminateRequest(reason=REASON_SHUTDOWN))
    world.runtime.die(agent.spec.agent_id, 0)


async def two_agents(world: World) -> tuple[AgentHand, AgentHand]:
    """Start choird with the agent that starts by itself, and one that was started by hand."""
    await world.start()
    main = await world.agent()
    await main.begin()
    answer = await world.post("/v1/agents/never/start", json={"dm": "second"})
    assert answer.status_code == 200
    never = await world.agent(starts=2)
    await never.begin()
    return main, never


async def test_agents_end_in_good_order_before_choird_and_run_again_after_it(
    stopped: World,
) -> None:
    stopped.settings = patient(stopped, 20)
    agents = await two_agents(stopped)
    ends = [asyncio.create_task(end_when_told(stopped, agent)) for agent in agents]
    await stopped.stop()
    await asyncio.gather(*ends)
    await stopped.start()

    async def both_run() -> bool:
        return {spec.agent_id for spec in stopped.runtime.specs} == {"main", "never"}

    await until(both_run)
    for agent in agents:
        session = await stopped.session(agent.spec.session_id)
        assert (session["status"], session["head_rev"]) == ("stopped", agent.head.rev)
    for spec in stopped.runtime.specs:
        assert (await stopped.hand(spec).hello()).continues in {a.spec.session_id for a in agents}


async def test_an_agent_that_does_not_end_in_time_goes_on_with_its_session_after_the_start(
    stopped: World,
) -> None:
    stopped.settings = patient(stopped, 0.5)
    main, _ = await two_agents(stopped)
    await stopped.stop()
    await stopped.start()

    async def both_run() -> bool:
        return {spec.agent_id for spec in stopped.runtime.specs} == {"main", "never"}

    await until(both_run)
    session = await stopped.session(main.spec.session_id)
    assert (session["status"], session["epoch"]) == ("starting", 2)


async def test_a_second_signal_does_not_wait_for_agents(stopped: World) -> None:
    stopped.settings = patient(stopped, 300)
    main, _ = await two_agents(stopped)
    stopping = asyncio.create_task(stopped.stop())
    assert (await main.next_signal()).body == ShutdownSignal(reason=REASON_SHUTDOWN)
    stopped.hurry.set()
    await stopping


async def test_a_restart_that_choirds_end_cuts_off_in_its_stop_is_finished_by_the_next_choird(
    stopped: World,
) -> None:
    """Also of an agent that does not start by itself."""
    _, never = await two_agents(stopped)
    restarting = asyncio.create_task(stopped.post("/v1/agents/never/restart"))
    assert (await never.next_signal()).body == ShutdownSignal(reason=REASON_RESTART)
    await stopped.stop()
    await asyncio.gather(restarting, return_exceptions=True)
    await stopped.start()
    await until_started(stopped, "never")


async def test_a_restart_that_choirds_end_cuts_off_before_its_start_is_finished_by_the_next_choird(
    stopped: World,
) -> None:
    _, never = await two_agents(stopped)
    assert stopped.control is not None
    stopper = stopped.control.services.sessions.stopper
    stopping = asyncio.create_task(stopper.stop("never", REASON_RESTART))
    await never.next_signal()
    await never.call("TERMINATE_SELF", TerminateRequest(reason=REASON_RESTART))
    stopped.runtime.die("never", 0)
    ended = await stopping
    assert ended is not None and ended.status == "stopped"
    await stopped.stop()
    await stopped.start()
    await until_started(stopped, "never")


async def until_started(world: World, agent_id: str) -> None:
    async def started() -> bool:
        return agent_id in {spec.agent_id for spec in world.runtime.specs}

    await until(started)


async def test_an_agent_that_was_stopped_by_hand_stays_stopped(stopped: World) -> None:
    stopped.settings = patient(stopped, 20)
    main, never = await two_agents(stopped)
    stopping = asyncio.create_task(stopped.post("/v1/agents/never/stop"))
    await never.next_signal()
    await never.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    stopped.runtime.die("never", 0)
    assert (await stopping).json()["state"] == "stopped"
    end = asyncio.create_task(end_when_told(stopped, main))
    await stopped.stop()
    await end
    await stopped.start()
    await stopped.agent()
    assert [spec.agent_id for spec in stopped.runtime.specs] == ["main"]
