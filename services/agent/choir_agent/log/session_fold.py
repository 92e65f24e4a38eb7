"""Fold of events into the state of a session. Pure, and defined for every prefix and every tail of a log.

Lanes decide their next move from this state alone, so a new turn and a turn that a crash interrupted take the
same path.
"""

from dataclasses import replace
from typing import assert_never

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.fold_work import (
    WorkPayload,
    apply_approval_decided,
    apply_core_reported,
    apply_core_started,
    apply_core_stopped,
    apply_injection,
    apply_proposal_result,
    apply_work_event,
)
from choir_agent.log.session_state import JobState, SessionState, SkillState, TurnState, load_state
from choir_agent.provenance.taint_fold import apply_to_taint
from choir_common.lanes import EDGE_LANE, edge_lane_of, is_edge, is_home
from choir_common.wire.config_parts import MONEY_BUDGETS
from choir_common.wire.events import (
    NON_CLOSING_KINDS,
    ApprovalDecided,
    AttachmentsRead,
    BudgetExhausted,
    BudgetGranted,
    Cancelled,
    CarriedEvent,
    CompactionRequested,
    CoreReported,
    CoreStarted,
    CoreStopped,
    FallbackChanged,
    InjectedInstruction,
    LaneSummary,
    MemoryCompacted,
    MemoryModeChanged,
    MemoryWriteCommitted,
    ModelOutput,
    PictureDescribed,
    RemindersAdded,
    Reply,
    ReportBegun,
    SessionAbandoned,
    SessionResumed,
    SessionStarted,
    SessionStopped,
    SessionSuspended,
    SkillStarted,
    SkillStopped,
    SkillTransitioned,
    Snapshot,
    ToolCallCommitted,
    ToolCallRequested,
    ToolResultCommitted,
    TurnParked,
    TurnUnparked,
    UsageRecorded,
    UserMessageStarted,
)


def apply_event(state: SessionState, event: CommittedEvent) -> SessionState:
    """Return the state after one more event."""
    state = _advance(state, event)
    match event.payload:
        case SessionStarted() | CarriedEvent() | MemoryModeChanged() | SessionAbandoned() as p:
            return _apply_lifecycle(state, p)
        case SessionResumed() | SessionSuspended() | SessionStopped() | FallbackChanged() as p:
            return _apply_lifecycle(state, p)
        case Snapshot() as p:
            # The snapshot covers all earlier events, both before the tail and within it.
            return replace(load_state(p.state), rev=event.rev)
        case UserMessageStarted() as p:
            spent = state.spent.with_unasked(edge_lane_of(event.lane), 0)
            state = replace(state, spent=spent)
            return _with_new_turn(state, _begin_turn(p, event.lane))
        case TurnParked() | TurnUnparked() as p:
            return _after_parking(state, event.lane, p)
        case RemindersAdded() | AttachmentsRead() | PictureDescribed() as p:
            return _after_preparation(state, p)
        case ReportBegun() as p:
            return _begin_report(state, event.lane, p)
        case Reply() as p:
            return _after_reply(state, event.lane, p)
        case ModelOutput() | ToolCallRequested() | ToolCallCommitted() | ToolResultCommitted() as p:
            return _after_work(state, event.lane, p)
        case CoreStarted() as p:
            return apply_core_started(state, p, edge=edge_lane_of(event.lane), at=event.at)
        case CoreReported() as p:
            return apply_core_reported(state, p)
        case CoreStopped() as p:
            return apply_core_stopped(state, p)
        case InjectedInstruction() as p:
            return _after_injection(_signal(state, p.signal), p)
        case Cancelled() as p:
            return _after_cancel(_signal(state, p.signal), p)
        case ApprovalDecided() as p:
            return apply_approval_decided(state, p, edge=edge_lane_of(event.lane))
        case SkillStarted() | SkillTransitioned() | SkillStopped() as p:
            return _after_skill(state, event.lane, p)
        case MemoryCompacted() | UsageRecorded() as p:
            return _after_compaction(state, p)
        case CompactionRequested() as p:
            return _signal(state, p.signal)
        case BudgetExhausted() | BudgetGranted() as p:
            return _after_budget(state, state.edge_of(event.lane), p)
        case MemoryWriteCommitted():
            return state
        case _:
            assert_never(event.payload)


def _advance(state: SessionState, event: CommittedEvent) -> SessionState:
    """Return the state with what every event changes."""
    state = _after_message(state, edge_lane_of(event.lane), _message_time(event))
    return replace(
        state,
        rev=event.rev,
        taint=apply_to_taint(state.taint, event.lane, event.payload, edge=_edge_of(state, event)),
    )


def _edge_of(state: SessionState, event: CommittedEvent) -> str:
    """Return the lane of the conversation that an event belongs to."""
    match event.payload:
        case CoreReported(job_id=job_id) | CoreStopped(job_id=job_id):
            jobs = (job.edge for job in state.jobs if job.turn_id == job_id)
            return next(jobs, edge_lane_of(event.lane))
        case _:
            return edge_lane_of(event.lane)


def _after_message(state: SessionState, lane: str, at: str) -> SessionState:
    if not at:
        return state
    if is_home(lane):
        return replace(state, last_message_at=at)
    times = {**dict(state.other_messages_at), lane: at}
    return replace(state, other_messages_at=tuple(times.items()))


def _message_time(event: CommittedEvent) -> str:
    """Return when a message to or from the user was committed; empty for other events and for notices."""
    match event.payload:
        case UserMessageStarted():
            return event.at
        case Reply(kind=kind) if kind not in ("notice", "silent"):
            return event.at
        case CarriedEvent(event_type="user_msg" | "reply") as carried:
            return carried.at
        case _:
            return ""


def _apply_lifecycle(
    state: SessionState,
    payload: (
        SessionStarted
        | CarriedEvent
        | MemoryModeChanged
        | FallbackChanged
        | SessionResumed
        | SessionSuspended
        | SessionStopped
        | SessionAbandoned
    ),
) -> SessionState:
    match payload:
        case SessionStarted():
            return replace(state, epoch=payload.epoch, stopped=False, summaries=payload.seed)
        case CarriedEvent():
            sources = tuple(dict.fromkeys((*state.carried_from, payload.session_id)))
            return replace(state, carried=state.carried + 1, carried_from=sources)
        case MemoryModeChanged():
            return replace(state, memory_mode=payload.mode)
        case FallbackChanged():
            others = tuple(name for name in state.fallbacks if name != payload.model)
            return replace(
                state, fallbacks=(*others, payload.model) if payload.fallback else others
            )
        case SessionResumed():
            # Only a crash counts against a job, a resumed suspension does not.
            # Jobs that waited did not cause the crash: with a suspended session, or for money.
            waited = state.suspended or state.exhausted in MONEY_BUDGETS
            jobs = state.jobs if waited else tuple(_resumed(job) for job in state.jobs)
            turns = state.turns
            if state.is_shared and not state.suspended:
                turns = tuple(_resumed_turn(turn) for turn in turns)
            state = replace(state, turns=turns, jobs=jobs)
            return replace(state, epoch=payload.epoch, stopped=False, suspended=False)
        case SessionSuspended():
            return replace(state, stopped=True, suspended=True)
        case SessionStopped():
            return replace(state, stopped=True)
        case SessionAbandoned():
            # The event itself contains control's message to the user, so nothing remains to be
            # reported.
            return replace(state, turns=(), parked=(), jobs=(), due=(), skills=())
        case _:
            assert_never(payload)


def _resumed(job: JobState) -> JobState:
    # A job that was only waiting for an answer did not cause the crash.
    return job if job.needs is not None else replace(job, resumes=job.resumes + 1)


def _resumed_turn(turn: TurnState) -> TurnState:
    return turn if turn.is_waiting else replace(turn, resumes=turn.resumes + 1)


def _after_skill(
    state: SessionState, lane: str, payload: SkillStarted | SkillTransitioned | SkillStopped
) -> SessionState:
    match payload:
        case SkillStarted():
            skill = SkillState(
                lane, payload.skill, payload.state, payload.input, {}, entered_by=payload.call_id
            )
            return _with_skill(state, lane, skill)
        case SkillTransitioned():
            return _after_transition(state, lane, payload)
        case SkillStopped(outcome=outcome):
            jobs = tuple(
                replace(job, skill_outcome=outcome) if job.lane == lane else job
                for job in state.jobs
            )
            return _with_skill(replace(state, jobs=jobs), lane, None)
        case _:
            assert_never(payload)


def _signal(state: SessionState, signal: int | None) -> SessionState:
    return replace(state, last_signal=max(state.last_signal, signal or 0))


def _begin_turn(message: UserMessageStarted, lane: str) -> TurnState:
    voices = [file.transcription for file in message.attachments if file.transcription]
    others = [file for file in message.attachments if not file.transcription]
    missing = [voice.problem for voice in voices if voice.is_missing]
    has_more = bool(message.text or others or len(missing) < len(voices))
    return TurnState(
        turn_id=message.turn_id,
        inbox_id=message.inbox_id,
        dm=message.dm,
        scheduled=message if message.wake_up is not None and message.wake_up.as_job else None,
        quiet=message.wake_up is not None and message.wake_up.quiet,
        lane=edge_lane_of(lane),
        spoken=any(not voice.problem for voice in voices),
        voice_problem="" if has_more else " ".join(missing),
    )


def _with_turn(state: SessionState, turn: TurnState) -> SessionState:
    """Return the state with a changed turn."""
    turns = tuple(turn if other.turn_id == turn.turn_id else other for other in state.turns)
    return replace(state, turns=turns)


def _with_new_turn(state: SessionState, turn: TurnState) -> SessionState:
    """Return the state with a turn in place of the open one of its lane, if there is one."""
    others = tuple(other for other in state.turns if other.lane != turn.lane)
    is_shared = state.is_shared or not is_home(turn.lane)
    return replace(state, turns=(*others, turn), is_shared=is_shared)


def _without_turn(state: SessionState, turn: TurnState) -> SessionState:
    return replace(state, turns=tuple(other for other in state.turns if other is not turn))


def _begin_report(state: SessionState, lane: str, report: ReportBegun) -> SessionState:
    turn = TurnState(
        turn_id=report.turn_id,
        dm=report.dm,
        lane=edge_lane_of(lane),
        subject=report.subject,
        brief=report.brief,
    )
    return _with_new_turn(state, turn)


def _after_parking(
    state: SessionState, lane: str, payload: TurnParked | TurnUnparked
) -> SessionState:
    match payload:
        case TurnParked():
            turn = state.turn_in(edge_lane_of(lane))
            if turn is None or turn.turn_id != payload.turn_id:
                return state
            # The skill is parked with its turn: turns for other messages must not run inside it.
            state = _without_turn(state, turn)
            turn = replace(turn, skill=state.skill_of(turn.lane))
            state = _with_skill(state, turn.lane, None)
            return replace(state, parked=(*state.parked, turn))
        case TurnUnparked():
            turn = next(
                (parked for parked in state.parked if parked.turn_id == payload.turn_id), None
            )
            others = tuple(parked for parked in state.parked if parked is not turn)
            if turn is None:
                return state
            if turn.skill is not None:
                state = _with_skill(state, turn.lane, turn.skill)
            return _with_new_turn(replace(state, parked=others), replace(turn, skill=None))
        case _:
            assert_never(payload)


def _after_preparation(
    state: SessionState, payload: RemindersAdded | AttachmentsRead | PictureDescribed
) -> SessionState:
    if isinstance(payload, PictureDescribed):
        return _spend(state, payload.prompt_tokens + payload.completion_tokens)
    turn = state.find_turn(payload.turn_id)
    if turn is None:
        return state
    match payload:
        case RemindersAdded():
            return _with_turn(state, replace(turn, reminded=True))
        case AttachmentsRead():
            return _with_turn(state, replace(turn, attachments_read=True))
        case _:
            assert_never(payload)


def _spend(state: SessionState, tokens: int) -> SessionState:
    return replace(state, spent=replace(state.spent, tokens=state.spent.tokens + tokens))


def _after_reply(state: SessionState, lane: str, reply: Reply) -> SessionState:
    turn_id = reply.turn_id
    turn = state.turn_in(edge_lane_of(lane)) if turn_id is None else state.find_turn(turn_id)
    if turn is None:
        return replace(state, jobs=tuple(_with_notice(job, reply) for job in state.jobs))
    if turn.inbox_id is not None and reply.answers == turn.inbox_id:
        return replace(_without_turn(state, turn), turns_done=state.turns_done + 1)
    if (
        turn.subject is not None
        and reply.kind not in NON_CLOSING_KINDS
        and reply.turn_id == turn.turn_id
    ):
        due = tuple(due for due in state.due if due.subject != turn.subject)
        return replace(_without_turn(state, turn), due=due)
    if reply.kind == "notice" and reply.turn_id == turn.turn_id:
        return _with_turn(state, replace(turn, noticed=True))
    return state


def _with_notice(job: JobState, reply: Reply) -> JobState:
    # The only reply with a job's id is the notice that it waits for a rate limit.
    return replace(job, noticed=True) if reply.turn_id == job.turn_id else job


def _after_work(state: SessionState, lane: str, payload: WorkPayload) -> SessionState:
    state = _apply_usage(state, lane, payload)
    # Apart from the budget, ignore events of work that began before the tail.
    turn = state.find_turn(payload.turn_id)
    if turn is not None:
        return _with_turn(state, apply_work_event(turn, payload))
    jobs = tuple(
        apply_work_event(job, payload) if job.turn_id == payload.turn_id else job
        for job in state.jobs
    )
    return replace(state, jobs=jobs)


def _apply_usage(state: SessionState, lane: str, payload: WorkPayload) -> SessionState:
    skill = state.skill_of(lane)
    match payload:
        case ModelOutput():
            state = _spend(state, payload.prompt_tokens + payload.completion_tokens)
            if skill is not None:
                state = _with_skill(state, lane, replace(skill, steps=skill.steps + 1))
        case ToolCallCommitted():
            calls = state.spent.tool_calls + 1
            state = replace(state, spent=replace(state.spent, tool_calls=calls))
        case ToolResultCommitted(status="refused") if skill is not None:
            state = _with_skill(state, lane, replace(skill, refusals=skill.refusals + 1))
        case ToolResultCommitted(status="success"):
            state = apply_proposal_result(state, payload)
    return state


def _after_injection(state: SessionState, injected: InjectedInstruction) -> SessionState:
    if is_edge(injected.target):
        turn = state.turn_in(injected.target)
        if turn is None or turn.turn_id != injected.turn_id:
            return state
        return _with_turn(state, replace(turn, news_rev=state.rev))
    jobs = tuple(
        apply_injection(job, injected, state.rev) if job.turn_id == injected.turn_id else job
        for job in state.jobs
    )
    return replace(state, jobs=jobs)


def _after_cancel(state: SessionState, cancelled: Cancelled) -> SessionState:
    turn = None if cancelled.turn_id is None else state.find_turn(cancelled.turn_id)
    if turn is not None:
        return _with_turn(state, replace(turn, cancelled=True))
    parked = tuple(
        replace(other, cancelled=True) if other.turn_id == cancelled.turn_id else other
        for other in state.parked
    )
    jobs = tuple(_cancelled(job) if job.turn_id == cancelled.turn_id else job for job in state.jobs)
    return replace(state, parked=parked, jobs=jobs)


def _cancelled(job: JobState) -> JobState:
    return replace(job, cancelled=True)


def _with_skill(state: SessionState, lane: str, skill: SkillState | None) -> SessionState:
    others = tuple(other for other in state.skills if other.lane != lane)
    return replace(state, skills=others if skill is None else (*others, skill))


def _after_transition(state: SessionState, lane: str, moved: SkillTransitioned) -> SessionState:
    skill = state.skill_of(lane)
    if skill is None or skill.skill != moved.skill:
        return state
    following = replace(
        skill,
        state=moved.to_state,
        context=moved.context,
        refusals=0,
        entered_on=moved.on,
        entered_by=moved.call_id,
        entered_at=skill.steps,
    )
    return _with_skill(state, lane, following)


def _after_compaction(
    state: SessionState, compacted: MemoryCompacted | UsageRecorded
) -> SessionState:
    state = _spend(state, compacted.prompt_tokens + compacted.completion_tokens)
    if isinstance(compacted, UsageRecorded) or compacted.failed:
        return state
    summary = LaneSummary(
        lane=compacted.target, summary=compacted.summary, through_rev=compacted.through_rev
    )
    others = tuple(other for other in state.summaries if other.lane != compacted.target)
    return replace(state, summaries=(*others, summary))


def _after_budget(
    state: SessionState, edge: str, payload: BudgetExhausted | BudgetGranted
) -> SessionState:
    if isinstance(payload, BudgetExhausted):
        exhausted = (state.exhausted, state.exhausted_limit, state.exhausted_until)
        is_known = exhausted == (payload.budget, payload.limit, payload.until)
        others = state.asked_in if is_known else ()
        return replace(
            state,
            asked_in=tuple(dict.fromkeys((*others, edge))),
            exhausted=payload.budget,
            exhausted_limit=payload.limit,
            exhausted_until=payload.until,
        )
    spent = state.spent
    match payload.budget:
        case "total_session_tokens":
            spent = replace(spent, granted_tokens=spent.granted_tokens + payload.amount)
        case "max_tool_calls_per_session":
            calls = spent.granted_tool_calls + payload.amount
            spent = replace(spent, granted_tool_calls=calls)
        case _:
            # A budget in money: control counts it.
            state = replace(state, money_grant_rev=state.rev)
    return replace(
        state,
        spent=spent,
        exhausted=None,
        exhausted_limit=0,
        exhausted_until="",
        asked_in=(EDGE_LANE,),
    )
