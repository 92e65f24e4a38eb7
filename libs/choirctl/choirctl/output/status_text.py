"""Sentences about the state of Choir and its agents. Pure; used by `status`."""

from choir_common.i18n import _, ngettext
from choir_common.lanes import CORE_LANE_PREFIX, is_core
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.money_text import format_cost
from choir_common.wire.operator import AgentView, SystemStatus
from choir_common.wire.rpc import StatusReport
from choirctl.output.language import server_text
from choirctl.output.printing import format_age
from choirctl.output.state_words import state_text

IDLE = "idle"


def system_lines(status: SystemStatus) -> list[str]:
    """Return lines about the system: whether it is ready, its model, and which parts are down and why."""
    down = [part for part in status.parts if not part.ok]
    if status.ready:
        first = _("Choir is ready. Model: {model}.").format(model=status.model)
    else:
        first = _("Choir is not ready: {names} is down.").format(
            names=", ".join(part.name for part in down) or _("a part")
        )
    spent = status.spent_today
    today = (
        [_("Spent today: {cost}.").format(cost=format_cost(spent))]
        if spent is not None and spent.calls
        else []
    )
    return [
        first,
        *today,
        *(f"  {part.name}: {server_text(part.detail) or _('it does not answer')}" for part in down),
    ]


def agent_lines(agent: AgentView) -> list[str]:
    """Return lines about an agent: its state, its jobs, failing models and queued messages."""
    lines = [f"{agent.agent_id} {_does(agent)}."]
    if agent.memory_mode == INCOGNITO:
        lines.append(_("  Its conversation is incognito: nothing is remembered."))
    if len(agent.conversations) > 1:
        lines.append(
            _("  It also talks in {names}.").format(names=", ".join(agent.conversations[1:]))
        )
    lines += [f"  {server_text(fault)}" for fault in agent.conversation_faults]
    lines += [
        _("  job {name}: {state_label}.").format(name=_name(lane), state_label=lane.state_label)
        for lane in _jobs(agent)
    ]
    lines += model_in_use_lines(agent)
    lines += model_lines(agent)
    lines += [*mcp_lines(agent), *harness_lines(agent)]
    if agent.queued_messages:
        lines.append(
            ngettext(
                "  {count} message waits for it.",
                "  {count} messages wait for it.",
                agent.queued_messages,
            )
        )
    return lines


def mcp_lines(agent: AgentView) -> list[str]:
    """Return a line for each MCP server whose tools the agent cannot use now, with the reason."""
    servers = (server for lane in agent.lanes for server in lane.mcp_servers)
    return [
        _("  Its MCP server {name} is {state}: {detail}.").format(
            name=server.name,
            state=state_text(server.state),
            detail=server_text(server.detail) or _("no reason known"),
        )
        for server in servers
        if server.state not in ("ready", "starting") or (server.detail and not server.tools)
    ]


def harness_lines(agent: AgentView) -> list[str]:
    """Return a line for each harness that the agent cannot use, with the reason."""
    harnesses = (harness for lane in agent.lanes for harness in lane.harnesses)
    return [
        _("  Its harness {name} failed: {detail}.").format(
            name=harness.name, detail=server_text(harness.detail)
        )
        for harness in harnesses
        if harness.state == "failed"
    ]


def model_in_use_lines(agent: AgentView) -> list[str]:
    """Return a line for each model that the agent's lanes use, with its context window."""
    models = dict.fromkeys(lane.model for lane in agent.lanes if lane.model is not None)
    return [
        _("  Its model {model} has a context of {context_window:,} tokens{value}.").format(
            model=it.model,
            context_window=it.context_window,
            value=_(": it gets short instructions and fewer tools") if it.is_small else "",
        )
        for it in models
    ]


def model_lines(agent: AgentView) -> list[str]:
    """Return a line for each of the agent's models that fails: since when, and how to fix it."""
    failures = {it.model_failure.words: it.model_failure for it in agent.lanes if it.model_failure}
    return [
        _("  Its model has not responded for {age}: {words}").format(
            age=format_age(it.since), words=server_text(it.words)
        )
        for it in failures.values()
    ]


def _does(agent: AgentView) -> str:
    match agent.state:
        case "running" if agent.suspect:
            return _("does not respond at the moment; it will be restarted if that continues")
        case "running":
            edge = next((lane for lane in agent.lanes if not is_core(lane.lane)), None)
            where = (
                _(" in the conversation {dm}").format(dm=agent.bindings.dm)
                if agent.bindings
                else ""
            )
            at = edge.state_label if edge else _("starting")
            doing = (
                _("waits for you{where}").format(where=where)
                if at == IDLE
                else _("is busy{where} ({at})").format(where=where, at=at)
            )
            return _("{doing}; it has run for {age}").format(
                doing=doing, age=format_age(agent.started_at)
            )
        case "starting":
            return _("is starting")
        case "stopped":
            return _("does not run; `choirctl agent start {agent_id}` starts it").format(
                agent_id=agent.agent_id
            )
        case "crashed":
            return _("has crashed; see `choirctl logs {agent_id}`").format(agent_id=agent.agent_id)
        case state:
            return _("is {state}").format(state=state_text(state))


def _jobs(agent: AgentView) -> list[StatusReport]:
    return [lane for lane in agent.lanes if is_core(lane.lane)]


def _name(lane: StatusReport) -> str:
    return lane.lane.removeprefix(CORE_LANE_PREFIX)
