"""Tables and lines for the objects that `/v1` returns. Used by most commands and by the chat."""

from collections.abc import Iterable, Iterator, Sequence

from pydantic import JsonValue, ValidationError
from rich.filesize import decimal
from rich.table import Table
from rich.tree import Tree

from choir_common.i18n import _, join
from choir_common.lane_text import limits_text
from choir_common.lanes import CORE_LANE_PREFIX, is_core, is_edge
from choir_common.wire.connections import HostConnections
from choir_common.wire.events import Event
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.model_check import CheckOutcome, ModelTestResult
from choir_common.wire.operations import (
    AgentModelAndVoice,
    ModelView,
    OperationView,
    VoiceView,
    WorkspaceView,
)
from choir_common.wire.operator import AgentView, DmView, SessionView
from choir_common.wire.rpc import StatusReport
from choirctl.output.language import server_text, tr
from choirctl.output.printing import escape, format_age, table
from choirctl.output.state_words import state_text

# colours for the states of agents, sessions and operations; other states have none
STATE_COLOURS = {
    **dict.fromkeys(("running", "active", "succeeded"), "green"),
    **dict.fromkeys(("crashed", "abandoned", "failed", "interrupted"), "red"),
}
OUTCOME_COLOURS: dict[CheckOutcome, str] = {"ok": "green", "warn": "yellow", "fail": "red"}
MAX_VALUE = 100
SHORT_REASON = 60  # `operation show` has all of it
SHORT_HASH = 12  # characters of a hash, enough for a person to compare
# fields that are printed first, and without their name
MAIN_FIELDS = ("tool", "job", "skill", "status", "outcome", "text", "reason", "error")
# suffixes of fields that are not printed: ids and hashes are for machines, and --json includes them
HIDDEN_SUFFIXES = ("_id", "_hash", "hash", "digest")
_NOTHING: tuple[object, ...] = (None, "", [], {}, ())


def agent_channel(dm: DmView) -> str:
    """Return the beginning of a sentence: which agent talks on which channel and DM."""
    return _("{agent_id} talks on {label} (DM {name})").format(
        agent_id=dm.agent_id, label=dm.channel.label, name=dm.name
    )


def agent_rows(agents: Sequence[AgentView]) -> Table:
    """Return a table with one row per agent."""
    rows = table(_("AGENT"), _("STATE"), _("MODEL"), _("SESSION"), _("UP"), _("SEEN"), _("QUEUED"))
    for agent in agents:
        rows.add_row(
            agent.agent_id,
            _state(agent.state) + (" (incognito)" if agent.memory_mode == INCOGNITO else ""),
            agent.model or "-",
            agent.session_id or "-",
            format_age(agent.started_at),
            format_age(agent.last_heartbeat_at),
            str(agent.queued_messages),
        )
    return rows


def agent_facts(agent: AgentView, settings: str = "") -> Table:
    """Return a table with all fields of one agent; `settings` describes the state of its configuration."""
    facts = table("", "")
    facts.show_header = False
    facts.add_row(_("agent"), agent.agent_id)
    facts.add_row(_("state"), _state(agent.state))
    facts.add_row(
        _("session"),
        _("{session_id}, epoch {epoch}").format(
            session_id=agent.session_id or "-", epoch=agent.epoch or "-"
        ),
    )
    facts.add_row(_("model"), agent.model or "-")
    facts.add_row(
        _("memory"),
        _("{memory_mode}, recall {value}").format(
            memory_mode=agent.memory_mode, value=_("on") if agent.recall else _("off")
        ),
    )
    if agent.bindings:
        for what, name in agent.bindings.model_dump(exclude_none=True).items():
            facts.add_row(state_text(what), name)
    if len(agent.conversations) > 1:
        facts.add_row(_("conversations"), ", ".join(agent.conversations))
    for fault in agent.conversation_faults:
        facts.add_row(_("not bound"), escape(server_text(fault)))
    facts.add_row(_("process"), str(agent.pid or "-"))
    since = (
        _(", since {started_at:%Y-%m-%d %H:%M:%S %Z}").format(started_at=agent.started_at)
        if agent.started_at
        else ""
    )
    facts.add_row(_("up"), f"{format_age(agent.started_at)}{since}")
    facts.add_row(
        _("settings"),
        escape(
            settings
            or _("version {config_version}").format(config_version=agent.config_version or "-")
        ),
    )
    late = _(", overdue") if agent.suspect else ""
    beat = (
        "-"
        if agent.last_heartbeat_at is None
        else _("{age} ago{late}").format(age=format_age(agent.last_heartbeat_at), late=late)
    )
    facts.add_row(_("heartbeat"), beat)
    facts.add_row(_("queued messages"), str(agent.queued_messages))
    _add_lanes(facts, agent)
    return facts


def _add_lanes(facts: Table, agent: AgentView) -> None:
    for lane in agent.lanes:
        job = lane.lane.removeprefix(CORE_LANE_PREFIX)
        facts.add_row(
            _("job {job}").format(job=job) if job != lane.lane else _("lane {job}").format(job=job),
            lane_state(lane),
        )
        if lane.budget_remaining:
            facts.add_row(_("  budget left"), _budget(lane))


def lane_state(lane: StatusReport) -> str:
    """Return a lane's state and skill on one line, as markup."""
    return escape(join(", ", filter(None, (lane.state_label, lane_skill(lane)))))


def lane_skill(lane: StatusReport) -> str:
    """Return the active skill of a lane and its step; empty if there is neither."""
    if lane.skill is None:
        return _("step {step}").format(step=lane.step) if lane.step else ""
    return (
        _("skill {skill}, step {step}").format(skill=lane.skill, step=lane.step)
        if lane.step
        else _("skill {skill}").format(skill=lane.skill)
    )


def _budget(lane: StatusReport) -> str:
    return escape(limits_text(lane.budget_remaining))


def session_rows(sessions: Sequence[SessionView]) -> Table:
    """Return a table with one row per session."""
    names = (
        _("SESSION"),
        _("AGENT"),
        _("STATUS"),
        _("EPOCH"),
        _("EVENTS"),
        _("STARTED"),
        _("ENDED"),
    )
    is_shared = any(len(session.conversations) > 1 for session in sessions)
    rows = table(*names, *([_("CONVERSATIONS")] if is_shared else []))
    for session in sessions:
        rows.add_row(
            session.session_id,
            session.agent_id,
            _state(session.status) + _kind(session),
            str(session.epoch),
            str(session.head_rev),
            format_age(session.started_at),
            format_age(session.ended_at),
            *([", ".join(session.conversations)] if is_shared else []),
        )
    return rows


def _kind(session: SessionView) -> str:
    """Return what is special about a session, in parentheses; empty for a usual one."""
    incognito = INCOGNITO if session.memory_mode == INCOGNITO else ""
    kinds = join(", ", filter(None, (_("rehearsal") if session.rehearsal else "", incognito)))
    return f" ({kinds})" if kinds else ""


def session_line(session: SessionView) -> str:
    """Return a session on one line: the time it started or ended, its id, agent, status and log length."""
    at = session.ended_at or session.started_at
    return _(
        "[dim]{at:%H:%M:%S}[/] {session_id} {agent_id} {state}, epoch {epoch}, {head_rev} events"
    ).format(
        at=at,
        session_id=session.session_id,
        agent_id=session.agent_id,
        state=_state(session.status),
        epoch=session.epoch,
        head_rev=session.head_rev,
    )


def model_rows(models: Sequence[ModelView]) -> Table:
    """Return a table with one row per language model or text-to-speech provider."""
    rows = table(_("NAME"), _("KIND"), _("PROVIDER"), _("MODEL"), _("ENDPOINT"), _("CONTEXT"))
    for model in models:
        context = f"{model.context_window:,}" if model.context_window else ""
        rows.add_row(
            model.name, state_text(model.kind), model.provider, model.model, model.endpoint, context
        )
    return rows


def model_test_rows(result: ModelTestResult) -> Table:
    """Return a table with the result of a test call."""
    rows = table("", _("MODEL"), _("TIME"), _("RESULT"))
    time = "" if result.duration_ms is None else f"{result.duration_ms / 1000:.1f} s"
    colour = OUTCOME_COLOURS[result.outcome]
    detail = escape(server_text(result.detail))
    rows.add_row(
        f"[{colour}]{state_text(result.outcome)}[/]",
        escape(result.model or result.name),
        time,
        detail,
    )
    return rows


def voice_rows(voices: Sequence[VoiceView]) -> Table:
    """Return a table with one row per voice profile."""
    rows = table(_("NAME"), _("TTS"), _("VOICE"), _("FORMAT"))
    for voice in voices:
        rows.add_row(voice.name, voice.tts, voice.voice_id, voice.output_format)
    return rows


def operation_rows(operations: Sequence[OperationView]) -> Table:
    """Return a table with one row per operation."""
    rows = table(_("OPERATION"), _("WHAT"), _("STATUS"), _("BEGAN"), _("AT"))
    for operation in operations:
        share = (
            f" {operation.share:.0%}"
            if operation.status == "running" and operation.share is not None
            else ""
        )
        rows.add_row(
            operation.operation_id,
            escape(server_text(f"{operation.kind} of {operation.subject}")),
            f"{_state(operation.status)}{share}",
            format_age(operation.began_at),
            escape(_short(server_text(operation.error or operation.step), SHORT_REASON)),
        )
    return rows


def operation_facts(operation: OperationView) -> Table:
    """Return a table with all fields of one operation except its result."""
    facts = table("", "")
    facts.show_header = False
    facts.add_row(_("operation"), operation.operation_id)
    facts.add_row(
        _("what"),
        escape(server_text(f"{operation.kind} of {operation.subject}")),
    )
    share = f", {operation.share:.0%}" if operation.share is not None else ""
    facts.add_row(_("status"), f"{_state(operation.status)}{share}")
    facts.add_row(_("at"), escape(server_text(operation.step) or "-"))
    if operation.error:
        facts.add_row(_("error"), f"[red]{escape(server_text(operation.error))}[/]")
    facts.add_row(_("began"), f"{operation.began_at:%Y-%m-%d %H:%M:%S %Z}")
    ended_at = operation.ended_at
    facts.add_row(_("ended"), f"{ended_at:%Y-%m-%d %H:%M:%S %Z}" if ended_at else "-")
    return facts


def workspace_rows(workspaces: Sequence[WorkspaceView]) -> Table:
    """Return a table with one row per workspace."""
    rows = table(_("WORKSPACE"), _("AGENT"), _("FILES"), _("SIZE"), _("PATH"))
    for workspace in workspaces:
        more = "" if workspace.complete else "+"
        rows.add_row(
            workspace.name,
            workspace.agent_id or "-",
            f"{workspace.files:,}{more}" if workspace.exists else "-",
            f"{decimal(workspace.size)}{more}" if workspace.exists else "-",
            escape(workspace.path),
        )
    return rows


def warning_lines(workspaces: Iterable[WorkspaceView]) -> Iterator[str]:
    """Yield what an owner should know about the workspaces: their traps, and those over a limit."""
    for workspace in workspaces:
        if workspace.excess:
            yield _("{name} {excess}: its agent cannot write there").format(
                name=workspace.name, excess=server_text(workspace.excess)
            )
        if workspace.disabled:
            files = ", ".join(workspace.disabled)
            yield _("{name}: disabled, because git would run it for you: {files}").format(
                name=workspace.name, files=files
            )
        if workspace.traps:
            files = ", ".join(workspace.traps)
            yield _("{name}: read before you open its directory: {files}").format(
                name=workspace.name, files=files
            )
        if not workspace.searched:
            yield _("{name}: not searched completely for such files").format(name=workspace.name)


def choice_facts(choices: AgentModelAndVoice) -> Table:
    """Return a table with an agent's models and voice; changed ones are marked."""
    facts = table("", "", "")
    facts.show_header = False
    for field, label in (
        ("llm", _("model")),
        ("core_llm", _("model of core jobs")),
        ("voice_profile", _("voice")),
    ):
        name = getattr(choices, field)
        note = _("until the next restart") if field in choices.changed else ""
        facts.add_row(label, name or "-", note)
    return facts


def session_facts(session: SessionView) -> Table:
    """Return a table with all fields of one session."""
    facts = table("", "")
    facts.show_header = False
    facts.add_row(_("session"), session.session_id)
    facts.add_row(_("agent"), session.agent_id)
    facts.add_row(
        _("status"),
        _("{state}, epoch {epoch}").format(state=_state(session.status), epoch=session.epoch),
    )
    facts.add_row(
        _("log"),
        _("{head_rev} events, up to {head_hash}…").format(
            head_rev=session.head_rev, head_hash=session.head_hash[:SHORT_HASH]
        ),
    )
    facts.add_row(_("continues"), session.continues or "-")
    facts.add_row(_("memory mode"), session.memory_mode)
    if len(session.conversations) > 1:
        facts.add_row(_("conversations"), ", ".join(session.conversations))
    facts.add_row(_("started"), f"{session.started_at:%Y-%m-%d %H:%M:%S %Z}")
    ended_at = session.ended_at
    facts.add_row(_("ended"), f"{ended_at:%Y-%m-%d %H:%M:%S %Z}" if ended_at else "-")
    if session.end_reason:
        facts.add_row(_("because"), escape(server_text(session.end_reason)))
    return facts


def job_rows(jobs: Sequence[StatusReport]) -> Table:
    """Return a table with one row per core job."""
    rows = table(_("JOB"), _("STATE"), _("SKILL"), _("STEP"), _("BUDGET LEFT"))
    for job in jobs:
        name = job.lane.removeprefix(CORE_LANE_PREFIX)
        rows.add_row(
            escape(name),
            escape(job.state_label),
            escape(job.skill or "-"),
            escape(job.step or "-"),
            _budget(job) or "-",
        )
    return rows


def work_tree(agents: Sequence[AgentView]) -> Tree | None:
    """Return a tree of agents with their lanes, jobs and remaining budgets; None if no lane is reported."""
    trees = Tree(tr(_("[bold]AT WORK[/]")), guide_style="dim")
    for agent in agents:
        if not agent.lanes:
            continue
        branch = trees.add(f"[bold]{agent.agent_id}[/]")
        for lane in agent.lanes:
            budget = (
                f"\n[dim]{_('left: {budget}').format(budget=_budget(lane))}[/]"
                if lane.budget_remaining
                else ""
            )
            job = lane.lane.removeprefix(CORE_LANE_PREFIX)
            what = (
                _("job {job}").format(job=escape(job))
                if job != lane.lane
                else _("lane {job}").format(job=escape(job))
            )
            branch.add(f"{what}: {lane_state(lane)}{budget}")
    return trees if trees.children else None


def event_line(event: Event) -> str:
    """Return an event on one line: revision, time, lane, type and the payload's main fields."""
    fields = {name: value for name, value in event.payload.items() if value not in _NOTHING}
    connections = fields.pop("connections", None)
    first = [_short(fields.pop(name)) for name in MAIN_FIELDS if name in fields]
    rest = [
        f"[dim]{name}={escape(_short(value))}[/]"
        for name, value in fields.items()
        if not name.endswith(HIDDEN_SUFFIXES)
    ]
    colour = "cyan" if is_edge(event.lane) else "magenta" if is_core(event.lane) else "dim"
    return " ".join(
        (
            f"{event.rev:>5} [dim]{event.at[11:23]}[/]",
            f"[{colour}]{escape(event.lane):<12}[/]",
            f"[bold]{event.type:<20}[/]",
            *(escape(text) for text in first),
            *rest,
            *(escape(text) for text in _connections(connections)),
        )
    ).rstrip()


def _connections(value: JsonValue) -> Iterator[str]:
    """Yield the hosts that a call contacted; older or foreign content is left out."""
    for item in value if isinstance(value, list) else ():
        try:
            c = HostConnections.model_validate(item)
        except ValidationError:
            continue
        count = f" x{c.connections}" if c.connections > 1 else ""
        yield _("→{host}:{port} {decision}{count} {bytes_up} B up, {bytes_down} B down;").format(
            host=c.host,
            port=c.port,
            decision=c.decision,
            count=count,
            bytes_up=c.bytes_up,
            bytes_down=c.bytes_down,
        )


def _short(value: object, longest: int = MAX_VALUE) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[:longest]}…"


def _state(word: str) -> str:
    colour = STATE_COLOURS.get(word)
    text = state_text(word)
    return f"[{colour}]{text}[/]" if colour else text
