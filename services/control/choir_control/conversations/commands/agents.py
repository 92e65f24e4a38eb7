"""Commands that show, start, stop and restart agents, switch their model or voice, and show events.

They call the same services as the operator API.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import Message, _, join, ngettext
from choir_common.lane_text import limits_text
from choir_common.lanes import CORE_LANE_PREFIX, EDGE_LANE, core_lane
from choir_common.wire.events import Event
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.messages import AgentState
from choir_common.wire.operator import AgentView, StartAgent
from choir_common.wire.rpc import StatusReport
from choir_control.agents.sessions.memory_modes import format_memory
from choir_control.agents.sessions.record import REASON_RESTART, STOPPED_BY
from choir_control.conversations.commands.approvals import count_decisions
from choir_control.conversations.commands.context import RESULT_FOLLOWS, CommandContext
from choir_control.conversations.commands.parser import (
    result_recipient,
    target_agent,
    target_session,
)
from choir_control.conversations.commands.spec import CommandCall
from choir_control.conversations.commands.texts import (
    format_pending,
    format_status,
    format_unknown_job,
)

LEFT_OPEN = _(
    "{agent} has stopped with open work. It resumes the work when it is started; another "
    "/stop discards the work."
)
GIVEN_UP = _("{agent} has discarded its open work.")

NONE = _("none")
STATES: dict[AgentState, Message] = {
    "running": _("running"),
    "starting": _("starting"),
    "stopped": _("stopped"),
    "crashed": _("crashed"),
    "unbound": _("unbound"),
}
DEFAULT_EVENTS = 10
MAX_SUMMARY_CHARS = 120
# payload keys, most informative first
SUMMARY_KEYS = ("text", "tool", "status", "outcome", "job", "reason", "summary", "error", "state")


async def show_status(context: CommandContext, call: CommandCall) -> str:
    """Return the state of an agent and its jobs, requests, resources and remaining budgets."""
    view = await context.overview.one(target_agent(call))
    if call.rank == "guest":
        return _("{agent} is {state}.").format(agent=view.agent_id, state=STATES[view.state])
    count = await count_decisions(context, call, view.agent_id)
    decisions = [format_pending(count)] if count else []
    if view.bindings is None:
        first = _("{agent} is {state}. Model: {model}.").format(
            agent=view.agent_id, state=STATES[view.state], model=view.model or NONE
        )
        return join("\n", [_with_queue(first, view), format_memory(view), *decisions])
    resources = view.bindings.model_dump(exclude_none=True)
    lines = [
        _with_queue(
            _("{agent} is {state}, up {age}, epoch {epoch}. Model: {model}.").format(
                agent=view.agent_id,
                state=STATES[view.state],
                age=_age(view.started_at),
                epoch=view.epoch,
                model=view.model or NONE,
            ),
            view,
        ),
        format_memory(view),
        *(_lane(report) for report in await _visible_lanes(context, call, view)),
        *decisions,
        _("Resources: {resources}").format(
            resources=", ".join(
                f"{kind.replace('_', ' ')} {name}" for kind, name in resources.items()
            )
        ),
        *_conversations(view, is_admin=call.is_admin),
        _("Session: {session_id}").format(session_id=view.session_id),
    ]
    return join("\n", lines)


async def list_agents(context: CommandContext, _call: CommandCall) -> str:
    """Return the state of every agent."""
    lines = [
        _with_queue(
            join(
                ", ",
                (
                    join("", (f"{view.agent_id}: ", STATES[view.state])),
                    view.model or _("no model"),
                    *(["incognito"] if view.memory_mode == INCOGNITO else []),
                ),
            ),
            view,
        )
        for view in await context.overview.all()
    ]
    return join("\n", lines) or _("No agent is configured.")


async def show_cores(context: CommandContext, call: CommandCall) -> str:
    """Return the jobs of an agent and the state of each."""
    session = await target_session(context, call)
    view = await context.overview.one(session.agent_id)
    lanes = await _visible_lanes(context, call, view)
    is_own = view.agent_id == call.bound_agent_id
    return format_status(view.agent_id, lanes, call.lane if is_own else EDGE_LANE)


async def _visible_lanes(
    context: CommandContext, call: CommandCall, view: AgentView
) -> Sequence[StatusReport]:
    """Return the lanes of an agent that a conversation may see: an admin all, others their own."""
    if call.is_admin or len(view.conversations) < 2 or view.session_id is None:
        return view.lanes
    jobs = await context.events.list_open_jobs(view.session_id, call.dm)
    visible = {call.lane, *map(core_lane, jobs)}
    return [report for report in view.lanes if report.lane in visible]


def _conversations(view: AgentView, *, is_admin: bool) -> list[str]:
    if not is_admin or (len(view.conversations) < 2 and not view.conversation_faults):
        return []
    return [
        _("Conversations: {conversations}").format(conversations=", ".join(view.conversations)),
        *view.conversation_faults,
    ]


async def start_agent(context: CommandContext, call: CommandCall) -> str:
    """Start an agent, bound to this conversation unless the settings name another."""
    agent_id = target_agent(call)
    agent = context.configuration.current.config.agents.get(agent_id)
    # one of its further conversations is bound in any case
    dm = None if agent is not None and call.dm in agent.conversations else call.dm
    try:
        # the settings come last, so they can name another conversation
        options = StartAgent.model_validate({"dm": dm, **call.settings})
    except ValidationError:
        option_names = ", ".join(sorted(StartAgent.model_fields))
        raise InvalidRequest(
            _("Valid settings of a start: {option_names}. Nothing was done.").format(
                option_names=option_names
            )
        ) from None

    async def start() -> str:
        row = await context.starter.start(agent_id, options)
        return _("{agent} has started in {dm}. Session: {session_id}").format(
            agent=agent_id, dm=row.bindings.dm, session_id=row.session_id
        )

    result = await context.background.run(
        result_recipient(context, call), "agent start", agent_id, start
    )
    return result or _("{agent} is being started. {result_follows}").format(
        agent=agent_id, result_follows=RESULT_FOLLOWS
    )


async def stop_agent(context: CommandContext, call: CommandCall) -> str:
    """Stop an agent; if it is already stopped with open work, discard that work."""
    agent_id = target_agent(call)
    context.configuration.current.agent(agent_id)
    if await context.sessions.find_unfinished(agent_id) is None:
        raise Conflict(_("{agent} is not running.").format(agent=agent_id))

    async def stop() -> str:
        why = STOPPED_BY.format(dm=call.dm)
        session = await context.stopper.stop(agent_id, why)
        if session is None:
            given_up = await context.stopper.give_up(agent_id, why)
            return (
                GIVEN_UP.format(agent=agent_id)
                if given_up
                else _("{agent} is not running.").format(agent=agent_id)
            )
        if session.status == "suspended":
            return LEFT_OPEN.format(agent=agent_id)
        return _("{agent} has stopped.").format(agent=agent_id)

    result = await context.background.run(
        result_recipient(context, call), "agent stop", agent_id, stop
    )
    return result or (
        _(
            "{agent} finishes its current step, writes a summary and stops; this may take some "
            "minutes. {result_follows}"
        ).format(agent=agent_id, result_follows=RESULT_FOLLOWS)
    )


async def restart_agent(context: CommandContext, call: CommandCall) -> str:
    """Stop an agent at its next safe point and start it with the same resources."""
    agent_id = target_agent(call)
    context.configuration.current.agent(agent_id)
    if await context.sessions.find_live(agent_id) is None:
        raise Conflict(_("{agent} is not running.").format(agent=agent_id))

    # before the stop: a restart that cannot succeed must not stop the agent
    await context.starter.check_restart(agent_id)

    async def restart() -> str:
        session = await context.stopper.stop(agent_id, REASON_RESTART)
        if session is None:
            return _("{agent} is not running.").format(agent=agent_id)
        row = await context.starter.restart(agent_id, session.initial_bindings, session.image)
        return _("{agent} has restarted. Session: {session_id}").format(
            agent=agent_id, session_id=row.session_id
        )

    result = await context.background.run(
        result_recipient(context, call), "agent restart", agent_id, restart
    )
    return result or (
        _(
            "{agent} finishes its current step, writes a summary and restarts; this may take some "
            "minutes. {result_follows}"
        ).format(agent=agent_id, result_follows=RESULT_FOLLOWS)
    )


def _with_queue(text: str, view: AgentView) -> str:
    """Return a text with the number of queued messages, if there are some."""
    if not view.queued_messages:
        return text
    queued = ngettext(
        "{count} message is queued.", "{count} messages are queued.", view.queued_messages
    )
    return join(" ", (text, queued))


def _lane(report: StatusReport) -> str:
    name = report.lane.removeprefix(CORE_LANE_PREFIX)
    activity = join(" ", filter(None, (report.state_label, report.skill, report.step)))
    budget = limits_text(report.budget_remaining)
    kind = _("- lane {name}: {activity}") if name == report.lane else _("- job {name}: {activity}")
    line: str = kind.format(name=name, activity=activity)
    if budget:
        line = join(" ", (line, _("(left: {budget})").format(budget=budget)))
    failure = report.model_failure
    if failure is None:
        return line
    silent = _("The model has not responded for {age}: {words}").format(
        age=_age(failure.since), words=failure.words
    )
    return join("\n  ", (line, silent))


def _age(since: datetime | None) -> str:
    if since is None:
        return "?"
    seconds = int((datetime.now(UTC) - since).total_seconds())
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


async def show_model(context: CommandContext, call: CommandCall) -> str:
    """Return the model that an agent uses and the available ones."""
    view = await context.session_settings.choices(target_agent(call))
    model_names = ", ".join(sorted(context.configuration.current.config.models))
    text = (
        _("{agent} uses the model {llm} ({model}), its jobs use {core_llm}. Available: {names}.")
        if view.core_llm
        else _("{agent} uses the model {llm} ({model}). Available: {names}.")
    )
    return text.format(
        agent=view.agent_id,
        llm=view.llm,
        model=view.model or _("removed from config.json"),
        core_llm=view.core_llm,
        names=model_names,
    )


async def set_model(context: CommandContext, call: CommandCall) -> str:
    """Switch an agent to another model."""
    view = await context.session_settings.set_model(target_agent(call), call.arguments["name"])
    return _("{agent} uses the model {llm} from its next step until its next restart.").format(
        agent=view.agent_id, llm=view.llm
    )


async def show_voice(context: CommandContext, call: CommandCall) -> str:
    """Return the voice that an agent uses and the available ones."""
    view = await context.session_settings.choices(target_agent(call))
    voice_names = ", ".join(sorted(context.configuration.current.config.voice_profiles))
    return _("{agent} uses the voice {voice}. Available: {names}.").format(
        agent=view.agent_id, voice=view.voice_profile or NONE, names=voice_names or NONE
    )


async def set_voice(context: CommandContext, call: CommandCall) -> str:
    """Switch an agent to another voice."""
    view = await context.session_settings.set_voice(target_agent(call), call.arguments["name"])
    return _("{agent} uses the voice {voice_profile} until its next restart.").format(
        agent=view.agent_id, voice_profile=view.voice_profile
    )


async def show_events(context: CommandContext, call: CommandCall) -> str:
    """Return the newest events of a session, oldest first."""
    session = await target_session(context, call)
    count = int(call.arguments.get("count", DEFAULT_EVENTS))
    if not call.is_admin and await context.conversations.list_bound(session.session_id):
        own = await context.events.read_newest(session.session_id, call.lane, count)
        return "\n".join(event_line(event) for event in own) or _("There are no events yet.")
    page = await context.events.read(session.session_id, max(0, session.head.rev - count), count)
    return "\n".join(event_line(event) for event in page) or _("There are no events yet.")


async def check_job(context: CommandContext, call: CommandCall) -> None:
    """Raise NotFound when the conversation's session has no open core job of the given name."""
    job = call.arguments.get("job")
    if job is None or call.session_id is None:
        return
    open_jobs = await context.events.list_open_jobs(
        call.session_id, None if call.is_admin else call.dm
    )
    if job not in open_jobs:
        raise NotFound(format_unknown_job(call.bound_agent_id or "", job, open_jobs))


def event_line(event: Event) -> str:
    """Return an event as one line."""
    text = next((str(event.payload[key]) for key in SUMMARY_KEYS if event.payload.get(key)), "")
    flat = " ".join(text.split())
    excerpt = flat if len(flat) <= MAX_SUMMARY_CHARS else f"{flat[:MAX_SUMMARY_CHARS]}…"
    event_type = event.type.replace("_", " ")
    return f"{event.rev} {event.at[11:19]} {event.lane}: {event_type}" + (
        f": {excerpt}" if excerpt else ""
    )
