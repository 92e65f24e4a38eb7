"""Fold of events into the origins of what each lane and the workspace hold. Pure.

A lane's taint never shrinks: when the events that carry it are compacted, it stays with the summary. A core
job begins with the taint of the lane that spawned it, and gives its own back with its reports and its end.
"""

from collections.abc import Iterable

from choir_common.eventlog.tool_results import (
    OUTSIDE_OUTPUT,
    OWN_OUTPUT,
    SOURCE_BY_TOOL,
    TOOL_OUTPUT,
    question_trust,
    returns_outside_text,
)
from choir_common.lanes import EDGE_LANE, core_lane, edge_lane_of
from choir_common.wire.agent_questions import QuestionOrigin
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    CoreStopped,
    EventPayload,
    InjectedInstruction,
    MemoryCompacted,
    RemindersAdded,
    Reply,
    SessionStarted,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.provenance import (
    MAX_ORIGIN_CHARS,
    LaneTaint,
    Origin,
    ResultProvenance,
    SessionTaint,
    WorkspaceTaint,
)
from choir_common.wire.speakers import MessageSpeaker

ANY_PATH = "*"
"""In `ResultProvenance.wrote`: any file may have changed."""
MAX_ORIGINS = 6
"""Origins that are kept for each lane and file; the newest ones are shown to a person."""
MAX_FILES = 200
"""Files whose origin is kept; a file beyond them counts as any other file of the workspace."""
BROWSE = "choir.web.browse"
CHOOSING_ACTIONS = frozenset({"open", "click", "select", "download"})
"""Actions of the browser that contact what a page or the user named."""
GESTURES = frozenset({"scroll", "back", "screenshot", "tabs"})
"""Actions of the browser that contact nobody, but that a script of the page can notice."""
UNKNOWN_PAST = SessionTaint(
    lanes={
        EDGE_LANE: LaneTaint(
            outside=(Origin(what="this conversation before the update", trust=TOOL_OUTPUT.trust),),
            private=(Origin(what="this conversation before the update"),),
            trust=TOOL_OUTPUT.trust,
        )
    }
)
"""The state of a snapshot that an older version wrote."""


def apply_to_taint(
    taint: SessionTaint, lane: str, payload: EventPayload, *, edge: str | None = None
) -> SessionTaint:
    """Return the taint after one more event of a lane.

    `edge` is the lane of the event's conversation: for the report of a job, of the one that started it.
    """
    edge = edge or edge_lane_of(lane)
    match payload:
        case SessionStarted(taint=inherited) if inherited is not None:
            return inherited
        case MemoryCompacted(target=target, taint=lane_taint) if lane_taint is not None:
            # A reset may leave nothing of the session but its summaries.
            return _with_lane(taint, target, join_lanes(taint.lane(target), lane_taint))
        case ToolResultCommitted():
            return _after_result(taint, lane, payload)
        case ToolCallRequested(tool=tool) if tool == BROWSE and taint.lane(lane).holds_both:
            return _after_choice(taint, lane, payload)
        case ToolCallCommitted(approved=True):
            agreed = taint.lane(lane).model_copy(update={"choices": 0, "gestures": 0})
            return _with_lane(taint, lane, agreed)
        case RemindersAdded(reminders=reminders) if reminders:
            least = min(reminder.trust for reminder in reminders)
            return _add(taint, edge, _from_memory(least))
        case UserMessageStarted():
            return _after_message(taint, edge, payload)
        case InjectedInstruction(by="user", speaker=speaker) if speaker and speaker.is_outsider:
            return _add(taint, edge, _from_outsider(speaker))
        case CoreStarted(job_name=name):
            return _with_lane(taint, core_lane(name), taint.lane(edge))
        case InjectedInstruction(target=target, by="edge"):
            return _with_lane(taint, target, join_lanes(taint.lane(target), taint.lane(edge)))
        case Reply(from_lane=source) if source:
            # What the other lane had read may have dictated the message.
            return _with_lane(taint, edge, join_lanes(taint.lane(edge), taint.lane(source)))
        case CoreReported(job_name=name):
            joined = join_lanes(taint.lane(edge), taint.lane(core_lane(name)))
            return _with_lane(taint, edge, joined)
        case CoreStopped(job_name=name):
            joined = join_lanes(taint.lane(edge), taint.lane(core_lane(name)))
            rest = {
                key: lane_taint for key, lane_taint in taint.lanes.items() if key != core_lane(name)
            }
            return _with_lane(taint.model_copy(update={"lanes": rest}), edge, joined)
        case _:
            return taint


def join_origins(before: Iterable[Origin], added: Iterable[Origin]) -> tuple[Origin, ...]:
    """Return distinct origins, the newest last; only the newest are kept."""
    by_text = {source.what: source for source in before}
    for source in added:
        by_text.pop(source.what, None)
        by_text[source.what] = source
    return tuple(by_text.values())[-MAX_ORIGINS:]


def join_lanes(lane_taint: LaneTaint, other: LaneTaint) -> LaneTaint:
    """Return what a lane holds that has read the content of another."""
    if other == LaneTaint():
        return lane_taint
    return LaneTaint(
        outside=join_origins(lane_taint.outside, other.outside),
        private=join_origins(lane_taint.private, other.private),
        trust=min(lane_taint.trust, other.trust),
        choices=max(lane_taint.choices, other.choices),
        gestures=max(lane_taint.gestures, other.gestures),
    )


def _add(taint: SessionTaint, lane: str, incoming: ResultProvenance) -> SessionTaint:
    if not incoming.outside and not incoming.private:
        return taint
    least = min((source.trust for source in incoming.outside), default=100)
    added = LaneTaint(outside=incoming.outside, private=incoming.private, trust=least)
    return _with_lane(taint, lane, join_lanes(taint.lane(lane), added))


def _with_lane(taint: SessionTaint, lane: str, lane_taint: LaneTaint) -> SessionTaint:
    if taint.lanes.get(lane) == lane_taint:
        return taint
    return taint.model_copy(update={"lanes": {**taint.lanes, lane: lane_taint}})


def _after_result(taint: SessionTaint, lane: str, result: ToolResultCommitted) -> SessionTaint:
    incoming = result.provenance or _of_unseen_result(result)
    after = _add(taint, lane, incoming)
    lane_taint, workspace = after.lane(lane), after.workspace
    if result.artifact_ref is not None:
        workspace = _with_file(workspace, result.artifact_ref, lane_taint)
    if incoming.wrote == ANY_PATH and lane_taint.outside:
        # Any file may hold it now, so what was known of single files no longer matters.
        outside = join_origins(workspace.outside, lane_taint.outside)
        workspace = WorkspaceTaint(outside=outside)
    elif incoming.wrote and incoming.wrote != ANY_PATH:
        workspace = _with_file(workspace, incoming.wrote, lane_taint)
    if workspace is after.workspace:
        return after
    return after.model_copy(update={"workspace": workspace})


def _with_file(workspace: WorkspaceTaint, path: str, lane_taint: LaneTaint) -> WorkspaceTaint:
    before = workspace.files.get(path)
    if not lane_taint.outside and before is None:
        return workspace  # as any other file of the workspace
    files = {name: file for name, file in workspace.files.items() if name != path}
    # An edited file may still hold what it held before.
    files[path] = join_lanes(before or LaneTaint(), lane_taint).model_copy(
        update={"choices": 0, "gestures": 0}
    )
    outside = workspace.outside
    while len(files) > MAX_FILES:
        dropped = files.pop(next(iter(files)))
        outside = join_origins(outside, dropped.outside)
    return WorkspaceTaint(outside=outside, files=files)


def _of_unseen_result(result: ToolResultCommitted) -> ResultProvenance:
    """Return what a call may have brought in that was interrupted, or that an older version recorded."""
    if result.status == "refused":
        return ResultProvenance()
    source = (Origin(what=f"output of {result.tool}"[:MAX_ORIGIN_CHARS]),)
    if result.status == "interrupted" and result.tool not in SOURCE_BY_TOOL:
        return ResultProvenance(outside=source, private=source, wrote=ANY_PATH)
    outside = source if returns_outside_text(result.tool, result.output) else ()
    is_private = not result.tool.startswith(("choir.web.", "choir.core.", "choir.skill."))
    return ResultProvenance(outside=outside, private=source if is_private else ())


def _after_choice(taint: SessionTaint, lane: str, call: ToolCallRequested) -> SessionTaint:
    action, lane_taint = call.input.get("action"), taint.lane(lane)
    if action in CHOOSING_ACTIONS:
        update = {"choices": lane_taint.choices + 1}
    elif action in GESTURES:
        update = {"gestures": lane_taint.gestures + 1}
    else:
        return taint
    return _with_lane(taint, lane, lane_taint.model_copy(update=update))


def _from_memory(least: int) -> ResultProvenance:
    source = Origin(what="reminders from memory", trust=least)
    return ResultProvenance(
        outside=(source,) if least < OWN_OUTPUT.trust else (), private=(source,)
    )


def _from_outsider(speaker: MessageSpeaker) -> ResultProvenance:
    what = f"message of {speaker.label} in a group"
    return ResultProvenance(outside=(Origin(what=what, trust=OUTSIDE_OUTPUT.trust),))


def _from_agent(question: QuestionOrigin) -> ResultProvenance:
    """Return what another agent's question brings in: its words, and what its lane holds."""
    source = f"agent {question.agent}"
    outside = [_relabelled(source, it) for it in question.holds.outside]
    outside.append(Origin(what=source, trust=question_trust(question)))
    private = [_relabelled(source, it) for it in question.holds.private]
    return ResultProvenance(outside=join_origins((), outside), private=join_origins((), private))


def _relabelled(source: str, origin: Origin) -> Origin:
    return origin.model_copy(update={"what": f"{source}: {origin.what}"[:MAX_ORIGIN_CHARS]})


def _after_message(taint: SessionTaint, lane: str, message: UserMessageStarted) -> SessionTaint:
    """Note what others may have written: files, texts of triggers, and words of the agent's own schedules."""
    wake_up, workspace = message.wake_up, taint.workspace
    if wake_up is not None and wake_up.by_agent:
        # The agent may have written them after it had read something from outside.
        what = f"schedule {wake_up.schedule_id}, which the agent created"
        outside = (Origin(what=what, trust=TOOL_OUTPUT.trust),)
        taint = _add(taint, lane, ResultProvenance(outside=outside))
    if wake_up is not None and wake_up.question is not None:
        taint = _add(taint, lane, _from_agent(wake_up.question))
    elif wake_up is not None and wake_up.outside:
        source = (Origin(what=wake_up.outside, trust=OUTSIDE_OUTPUT.trust),)
        taint = _add(taint, lane, ResultProvenance(outside=source))
    if message.speaker is not None and message.speaker.is_outsider:
        taint = _add(taint, lane, _from_outsider(message.speaker))
    sender, trust = "the user", TOOL_OUTPUT.trust
    if wake_up is not None and wake_up.outside:
        sender = wake_up.outside
        trust = trust if wake_up.question is not None else OUTSIDE_OUTPUT.trust
    for file in message.attachments:
        if file.transcription is not None:
            continue
        # The sender chose the name, so it is cut and kept in one line.
        name = " ".join(file.name.split())[:100]
        source = (Origin(what=f"file {name} from {sender}"[:MAX_ORIGIN_CHARS], trust=trust),)
        incoming = ResultProvenance(outside=source, private=source)
        taint = _add(taint, lane, incoming)
        if file.path:
            lane_taint = LaneTaint(outside=source, private=source, trust=trust)
            workspace = _with_file(workspace, file.path, lane_taint)
    if workspace is taint.workspace:
        return taint
    return taint.model_copy(update={"workspace": workspace})


def is_as_trusted_as_pages(lane_taint: LaneTaint) -> bool:
    """Return whether what a lane notes deserves no more trust than a web page."""
    return lane_taint.trust <= OUTSIDE_OUTPUT.trust
