"""Sentences about the state of Choir and its agents. Pure; used by `status`."""

from choir_common.lanes import CORE_LANE_PREFIX, is_core
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.money_text import format_cost
from choir_common.wire.operator import AgentView, SystemStatus
from choir_common.wire.rpc import StatusReport
from choirctl.output.printing import format_age, format_count

IDLE = "idle"


def system_lines(status: SystemStatus) -> list[str]:
    """Return lines about the system: whether it is ready, its model, and which parts are down and why."""
    down = [part for part in status.parts if not part.ok]
    if status.ready:
        first = f"Choir is ready. Model: {status.model}."
    else:
        first = f"Choir is not ready: {', '.join(part.name for part in down) or 'a part'} is down."
    spent = status.spent_today
    today = [f"Spent today: {format_cost(spent)}."] if spent is not None and spent.calls else []
    return [
        first,
        *today,
        *(f"  {part.name}: {part.detail or 'it does not answer'}" for part in down),
    ]


def agent_lines(agent: AgentView) -> list[str]:
    """Return lines about an agent: its state, its jobs, failing models and queued messages."""
    lines = [f"{agent.agent_id} {_does(agent)}."]
    if agent.memory_mode == INCOGNITO:
        lines.append("  Its conversation is incognito: nothing is remembered.")
    if len(agent.conversations) > 1:
        lines.append(f"  It also talks in {', '.join(agent.conversations[1:])}.")
    lines += [f"  {fault}" for fault in agent.conversation_faults]
    lines += [f"  job {_name(lane)}: {lane.state_label}." for lane in _jobs(agent)]
    lines += model_in_use_lines(agent)
    lines += model_lines(agent)
    lines += [*mcp_lines(agent), *harness_lines(agent)]
    if agent.queued_messages:
        verb = "waits" if agent.queued_messages == 1 else "wait"
        lines.append(f"  {format_count(agent.queued_messages, 'message')} {verb} for it.")
    return lines


def mcp_lines(agent: AgentView) -> list[str]:
    """Return a line for each MCP server whose tools the agent cannot use now, with the reason."""
    servers = (server for lane in agent.lanes for server in lane.mcp_servers)
    return [
        f"  Its MCP server {server.name} is {server.state}: {server.detail or 'no reason known'}."
        for server in servers
        if server.state not in ("ready", "starting") or (server.detail and not server.tools)
    ]


def harness_lines(agent: AgentView) -> list[str]:
    """Return a line for each harness that the agent cannot use, with the reason."""
    harnesses = (harness for lane in agent.lanes for harness in lane.harnesses)
    return [
        f"  Its harness {harness.name} failed: {harness.detail}."
        for harness in harnesses
        if harness.state == "failed"
    ]


def model_in_use_lines(agent: AgentView) -> list[str]:
    """Return a line for each model that the agent's lanes use, with its context window."""
    models = dict.fromkeys(lane.model for lane in agent.lanes if lane.model is not None)
    return [
        f"  Its model {it.model} has a context of {it.context_window:,} tokens"
        f"{': it gets short instructions and fewer tools' if it.is_small else ''}."
        for it in models
    ]


def model_lines(agent: AgentView) -> list[str]:
    """Return a line for each of the agent's models that fails: since when, and how to fix it."""
    failures = {it.model_failure.words: it.model_failure for it in agent.lanes if it.model_failure}
    return [
        f"  Its model has not responded for {format_age(it.since)}: {it.words}"
        for it in failures.values()
    ]


def _does(agent: AgentView) -> str:
    match agent.state:
        case "running" if agent.suspect:
            return "does not respond at the moment; it will be restarted if that continues"
        case "running":
            edge = next((lane for lane in agent.lanes if not is_core(lane.lane)), None)
            where = f" in the conversation {agent.bindings.dm}" if agent.bindings else ""
            at = edge.state_label if edge else "starting"
            doing = f"waits for you{where}" if at == IDLE else f"is busy{where} ({at})"
            return f"{doing}; it has run for {format_age(agent.started_at)}"
        case "starting":
            return "is starting"
        case "stopped":
            return f"does not run; `choirctl agent start {agent.agent_id}` starts it"
        case "crashed":
            return f"has crashed; see `choirctl logs {agent.agent_id}`"
        case state:
            return f"is {state}"


def _jobs(agent: AgentView) -> list[StatusReport]:
    return [lane for lane in agent.lanes if is_core(lane.lane)]


def _name(lane: StatusReport) -> str:
    return lane.lane.removeprefix(CORE_LANE_PREFIX)
