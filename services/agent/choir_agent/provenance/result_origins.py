"""Origins of a tool's result: what it brings into its lane. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from choir_agent.provenance.data_flow import DataFlow
from choir_agent.provenance.shell_commands import fetches_text, is_local
from choir_agent.provenance.taint_fold import ANY_PATH, join_origins
from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT, OWN_OUTPUT, SEEN_BEFORE, TOOL_OUTPUT
from choir_common.wire.agent_questions import ASK_TOOL
from choir_common.wire.model import JsonObject
from choir_common.wire.provenance import (
    MAX_ORIGIN_CHARS,
    LaneTaint,
    Origin,
    ResultProvenance,
    SessionTaint,
    WorkspaceTaint,
)

MEMORY_QUERY = "choir.memory.query"
NO_ANSWER = "no_answer"
SCHEDULE_LIST = "choir.schedule.list"
MAX_DEPTH = 4
"""Levels of an output that are searched for paths and URLs."""


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that ran, and its output."""

    tool: str
    flow: DataFlow
    arguments: JsonObject
    output: JsonObject
    path: str = ""
    """The canonical path in the workspace, if the call has one."""
    offline: bool = False
    """Whether it ran without network."""


def origin(what: str, trust: int = OUTSIDE_OUTPUT.trust) -> Origin:
    """Return an origin whose text is one line of limited length."""
    line = " ".join(what.split())
    short = line if len(line) <= MAX_ORIGIN_CHARS else line[: MAX_ORIGIN_CHARS - 1] + "…"
    return Origin(what=short, trust=trust)


def result_provenance(call: EndedCall, session: SessionTaint) -> ResultProvenance:
    """Return what a result brings into the lane of its call."""
    if call.tool == MEMORY_QUERY:
        return _of_memory(call, session)
    if call.tool == ASK_TOOL:
        return _of_answer(call)
    outside, private = [*_outside(call), *_of_schedules(call), *_of_failures(call)], []
    # A refused write quotes the lines that are present.
    if call.flow.reads_workspace or "present" in call.output:
        private.append(origin(f"file {call.path}" if call.path else "files of the workspace"))
        outside += _outside_in_files(session.workspace, call.path)
    elif call.flow.private:
        private.append(origin(_describe(call)))
    return ResultProvenance(
        outside=join_origins((), outside), private=join_origins((), private), wrote=_wrote(call)
    )


def _outside(call: EndedCall) -> Iterator[Origin]:
    if not call.flow.outside or call.offline:
        return
    if not call.flow.can_be_offline:
        yield origin(_describe(call))
        return
    command = str(call.arguments.get("command", ""))
    if not is_local(command):
        trust = OUTSIDE_OUTPUT.trust if fetches_text(command) else TOOL_OUTPUT.trust
        yield origin(f"output of `{command}`", trust)


def _of_schedules(call: EndedCall) -> Iterator[Origin]:
    """Yield the words of the agent's own schedules: it may have read something from outside before."""
    listed = call.output.get("schedules") if call.tool == SCHEDULE_LIST else None
    schedules = listed if isinstance(listed, list) else []
    if any(isinstance(item, dict) and item.get("by_agent") for item in schedules):
        yield origin("schedules that the agent created", TOOL_OUTPUT.trust)


def _of_failures(call: EndedCall) -> Iterator[Origin]:
    """Yield the earlier failures that memory added, if they are as trusted as pages.

    The other ones are output of the agent's own programs, like the failure itself.
    """
    before = call.output.get(SEEN_BEFORE)
    cases = before.get("cases") if isinstance(before, dict) else None
    least = min(map(trust_of_hit, cases), default=100) if isinstance(cases, list) else 100
    if least <= OUTSIDE_OUTPUT.trust:
        yield origin("earlier failures in memory", least)


def _outside_in_files(workspace: WorkspaceTaint, path: str) -> Iterator[Origin]:
    """Yield what the file or directory at `path` may hold; the whole workspace without a path."""
    yield from workspace.outside
    for name, file in workspace.files.items():
        if path in ("", ".", name) or name.startswith(f"{path}/"):
            yield from file.outside


def _of_memory(call: EndedCall, session: SessionTaint) -> ResultProvenance:
    agent = call.arguments.get("target_agent")
    what = f"memory of {agent}" if isinstance(agent, str) else "memory"
    hits = call.output.get("found")
    if not isinstance(hits, list):
        # the session's own log: it holds what any lane holds
        lanes = session.lanes.values()
        return ResultProvenance(
            outside=join_origins((), (source for lane in lanes for source in lane.outside)),
            private=(origin(what),),
        )
    least = min(map(trust_of_hit, hits), default=OWN_OUTPUT.trust)
    return ResultProvenance(
        outside=(origin(what, least),) if least < OWN_OUTPUT.trust else (),
        private=(origin(what),) if hits else (),
    )


def _of_answer(call: EndedCall) -> ResultProvenance:
    """Return what another agent's answer brings in: what that agent's lane holds, or else anything.

    Refusals are Choir's own text.
    """
    source = f"answer of agent {call.arguments.get('agent')}"
    code = call.output.get("code")
    if isinstance(code, str) and "answer" not in call.output:
        trust = TOOL_OUTPUT.trust
        failed = code == NO_ANSWER  # may quote the other agent
        return ResultProvenance(outside=(origin(source, trust),) if failed else ())
    try:
        holds = LaneTaint.model_validate(call.output.get("holds"), strict=False)
    except ValidationError:
        return ResultProvenance(outside=(origin(source),), private=(origin(source),))
    outside = [origin(f"{source}: {it.what}", it.trust) for it in holds.outside]
    outside.append(origin(source, min(TOOL_OUTPUT.trust, holds.trust)))
    private = [origin(f"{source}: {it.what}") for it in holds.private]
    return ResultProvenance(outside=join_origins((), outside), private=join_origins((), private))


def trust_of_hit(hit: JsonValue) -> int:
    """Return the trust of a hit of a memory search; the context of a hit comes without its own."""
    trust = hit.get("trust") if isinstance(hit, dict) else None
    if not isinstance(hit, dict) or not isinstance(trust, int):
        return TOOL_OUTPUT.trust
    return min(trust, TOOL_OUTPUT.trust) if hit.get("before") or hit.get("after") else trust


def _describe(call: EndedCall) -> str:
    match call.tool.split("."):
        case ["choir", "web", "browse"]:
            return f"web page {call.output.get('url') or call.arguments.get('url') or '(open)'}"
        case ["choir", "web", _]:
            return f"web search for {call.arguments.get('query')}"
        case ["choir", "email", _]:
            return "mail in the mailbox"
        case _:
            return f"output of {call.tool}"


def _wrote(call: EndedCall) -> str:
    match call.flow.writes:
        case "nothing":
            return ""
        case "path":
            return call.path
        case "files":
            runs_program = call.flow.reads_workspace
            return ANY_PATH if runs_program or any(_paths(call.output)) else ""
        case "listed":
            files = [*_paths(call.output.get("files"))]
            return files[0] if len(files) == 1 else ANY_PATH if files else ""


def _paths(value: JsonValue, depth: int = MAX_DEPTH) -> Iterator[str]:
    """Yield the paths of files that an output names."""
    children: Iterable[JsonValue] = ()
    if isinstance(value, dict):
        path = value.get("path")
        if isinstance(path, str):
            yield path
        children = value.values()
    elif isinstance(value, list):
        children = value
    if depth:
        for child in children:
            yield from _paths(child, depth - 1)
