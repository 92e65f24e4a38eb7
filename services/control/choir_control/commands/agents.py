"""Handlers of the commands that show, start and stop agents. They call the services of `/v1/agents`."""

from datetime import UTC, datetime

from pydantic import ValidationError

from choir_common.errors import BadInput, Conflict
from choir_common.wire.operator import AgentView, StartAgent
from choir_common.wire.rpc import StatusReport
from choir_control.commands.errands import LATER
from choir_control.commands.hands import Hands
from choir_control.commands.row import Call
from choir_control.commands.target import asker_of, session_of, target_of
from choir_control.inbox.words import CORE, lanes_text
from choir_control.sessions.record import RESTARTED, STOPPED_BY

LEFT_OPEN = (
    "{agent} has stopped in the middle of its work. It goes on with it when it is started; another /stop "
    "gives the work up."
)
GIVEN_UP = "{agent} gives up the work it was stopped in."


async def show_status(hands: Hands, call: Call) -> str:
    """Return the state of an agent and its jobs, its resources and its remaining budgets."""
    view = await hands.roster.one(target_of(call))
    if view.bindings is None:
        return f"{view.agent_id} is {view.state}. Model: {view.model or 'none'}.{_queued(view)}"
    held = view.bindings.model_dump(exclude_none=True)
    lines = [
        f"{view.agent_id} is {view.state}, up {_age(view.started_at)}, epoch {view.epoch}. "
        f"Model: {view.model or 'none'}.{_queued(view)}",
        *(_lane(report) for report in view.lanes),
        "Holds: " + ", ".join(f"{kind.replace('_', ' ')} {name}" for kind, name in held.items()),
        f"Session: {view.session_id}",
    ]
    return "\n".join(lines)


async def list_agents(hands: Hands, _: Call) -> str:
    """Return the state of every agent."""
    lines = [
        f"{view.agent_id}: {view.state}, {view.model or 'no model'}{_queued(view)}"
        for view in await hands.roster.all()
    ]
    return "\n".join(lines) or "No agent is configured."


async def show_cores(hands: Hands, call: Call) -> str:
    """Return the jobs of an agent and the state of each."""
    session = await session_of(hands, call)
    view = await hands.roster.one(session.agent_id)
    return lanes_text(view.agent_id, view.lanes)


async def start_agent(hands: Hands, call: Call) -> str:
    """Start an agent, bound to this conversation unless the settings name another."""
    agent_id = target_of(call)
    try:
        # the settings come last, so they can name another conversation
        wanted = StartAgent.model_validate({"dm": call.dm, **call.settings})
    except ValidationError:
        known = ", ".join(sorted(StartAgent.model_fields))
        raise BadInput(f"What a start takes: {known}. Nothing was done.") from None

    async def start() -> str:
        row = await hands.starter.start(agent_id, wanted)
        return f"{agent_id} is started, in {row.bindings.dm}. Session: {row.session_id}"

    said = await hands.errands.begin(asker_of(hands, call), "agent start", agent_id, start)
    return said or f"{agent_id} is being started. {LATER}"


async def stop_agent(hands: Hands, call: Call) -> str:
    """Stop an agent; if it is already stopped with open work, discard that work."""
    agent_id = target_of(call)
    hands.configuration.current.agent(agent_id)
    if await hands.sessions.unfinished_of(agent_id) is None:
        raise Conflict(f"{agent_id} is not running.")

    async def stop() -> str:
        why = STOPPED_BY.format(dm=call.dm)
        ended = await hands.stopper.stop(agent_id, why)
        if ended is None:
            given_up = await hands.stopper.give_up(agent_id, why)
            return GIVEN_UP.format(agent=agent_id) if given_up else f"{agent_id} is not running."
        if ended.status == "suspended":
            return LEFT_OPEN.format(agent=agent_id)
        return f"{agent_id} has stopped."

    said = await hands.errands.begin(asker_of(hands, call), "agent stop", agent_id, stop)
    return said or (
        f"{agent_id} finishes what it is at, sums up, and stops; that may take some minutes. {LATER}"
    )


async def restart_agent(hands: Hands, call: Call) -> str:
    """Stop an agent at its next safe point and start it with the same resources."""
    agent_id = target_of(call)
    hands.configuration.current.agent(agent_id)
    if await hands.sessions.live_of(agent_id) is None:
        raise Conflict(f"{agent_id} is not running.")

    # before the stop: a restart that cannot succeed must not stop the agent
    await hands.starter.check_restart(agent_id)

    async def restart() -> str:
        ended = await hands.stopper.stop(agent_id, RESTARTED)
        if ended is None:
            return f"{agent_id} is not running."
        row = await hands.starter.start_as(agent_id, ended.started_with, ended.image)
        return f"{agent_id} is started again. Session: {row.session_id}"

    said = await hands.errands.begin(asker_of(hands, call), "agent restart", agent_id, restart)
    return said or (
        f"{agent_id} finishes what it is at, sums up, and is then started again; that may take some "
        f"minutes. {LATER}"
    )


def _queued(view: AgentView) -> str:
    return f" {view.queued_messages} messages wait." if view.queued_messages else ""


def _lane(report: StatusReport) -> str:
    name = report.lane.removeprefix(CORE)
    doing = " ".join(part for part in (report.state_word, report.skill, report.step) if part)
    left = report.budget_remaining.items()
    budget = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in left)
    kind = "lane" if name == report.lane else "job"
    line = f"- {kind} {name}: {doing}" + (f" (left: {budget})" if budget else "")
    failure = report.model_failure
    if failure is None:
        return line
    return f"{line}\n  The model has not answered for {_age(failure.since)}: {failure.words}"


def _age(since: datetime | None) -> str:
    if since is None:
        return "?"
    seconds = int((datetime.now(UTC) - since).total_seconds())
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
