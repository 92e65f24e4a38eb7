"""Memory and the agent agree on how far each lane of a session is trusted, whatever happened in it."""

from hypothesis import given
from hypothesis import strategies as st

from choir_agent.provenance.taint_fold import apply_to_taint
from choir_common.lanes import edge_lane_of
from choir_common.wire.agent_questions import QuestionOrigin
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    CoreStopped,
    EventPayload,
    InjectedInstruction,
    MemoryCompacted,
    ReferenceSummary,
    RemindersAdded,
    Reply,
    SessionStarted,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.memory_recall import Reminder
from choir_common.wire.provenance import LaneTaint, Origin, ResultProvenance, SessionTaint
from choir_common.wire.schedules import WakeUp
from choir_common.wire.speakers import MessageSpeaker
from choir_common.wire.speech import Transcription
from choir_memory.sessions.lane_trust import LaneTrust

TRUSTS = st.sampled_from([10, 30, 50, 70])
NAMES = st.sampled_from(["dig", "read"])
ENDS = (CoreReported, CoreStopped)
LANES = st.sampled_from(["edge", "edge:desk", "core:dig", "core:read"])
ORIGINS = st.builds(Origin, what=st.sampled_from(["a", "b"]), trust=TRUSTS)
LANE_TAINTS = st.builds(
    lambda outside: LaneTaint(
        outside=outside, trust=min((source.trust for source in outside), default=100)
    ),
    st.lists(ORIGINS, max_size=2).map(tuple),
)
PROVENANCE = st.builds(ResultProvenance, outside=st.lists(ORIGINS, max_size=2).map(tuple))
FILE = ReceivedFile(name="a.pdf", kind="document", mime="application/pdf", size=1, path="a.pdf")
SPEAKERS = st.sampled_from(
    [
        None,
        MessageSpeaker(),
        MessageSpeaker(display_name="x"),
        MessageSpeaker(name="a", role="owner"),
    ]
)
VOICE = FILE.model_copy(update={"transcription": Transcription()})


def reminders(trust: int) -> RemindersAdded:
    reminder = Reminder.model_validate(
        {"document_id": "1", "kind": "fact", "text": "x", "at": "2026-03-01T12:00:00Z", "trust": trust},
        strict=False,
    )  # fmt: skip
    return RemindersAdded(turn_id="t", reminders=(reminder,))


RESULTS = st.builds(
    ToolResultCommitted,
    turn_id=st.just("t"),
    call_id=st.just("c"),
    tool=st.sampled_from(["choir.web.browse", "choir.exec", "choir.memory.query", "x.y"]),
    status=st.sampled_from(["success", "error", "refused", "interrupted"]),
    output=st.sampled_from([{}, {"found": [{"trust": 10}]}, {"found": [{"trust": 30}]}]),
    provenance=st.none() | PROVENANCE,
)
QUESTIONS = st.builds(
    QuestionOrigin,
    question_id=st.just("q"),
    agent=st.just("a"),
    session_id=st.just("s"),
    call_id=st.just("c"),
    askers=st.just(("a",)),
    first_question=st.just("q"),
    holds=LANE_TAINTS,
)
MESSAGES = st.builds(
    UserMessageStarted,
    turn_id=st.just("t"),
    inbox_id=st.just("i"),
    dm=st.just("d"),
    text=st.just("x"),
    attachments=st.sampled_from([(), (FILE,), (VOICE,)]),
    speaker=SPEAKERS,
    wake_up=st.none()
    | st.builds(
        WakeUp,
        schedule_id=st.just(7),
        summary=st.just(""),
        by_agent=st.booleans(),
        outside=st.sampled_from(["", "webhook ci"]),
        question=st.none() | QUESTIONS,
    ),
)
EVENTS: st.SearchStrategy[EventPayload] = st.one_of(
    RESULTS,
    MESSAGES,
    TRUSTS.map(reminders),
    st.builds(
        SessionStarted,
        agent_id=st.just("main"),
        epoch=st.just(1),
        taint=st.none() | st.builds(SessionTaint, lanes=st.dictionaries(LANES, LANE_TAINTS)),
    ),
    st.builds(
        MemoryCompacted,
        target=LANES,
        through_rev=st.just(1),
        delta=st.just({}),
        summary=st.just(ReferenceSummary(summary="x")),
        taint=st.none() | LANE_TAINTS,
    ),
    st.builds(
        CoreStarted,
        job_id=st.just("j"),
        job_name=NAMES,
        call_id=st.just("c"),
        dm=st.just("d"),
        task_spec=st.just("x"),
    ),
    st.builds(
        CoreReported,
        job_id=st.just("j"),
        job_name=NAMES,
        kind=st.just("progress"),
        body=st.just({}),
    ),
    st.builds(CoreStopped, job_id=st.just("j"), job_name=NAMES, outcome=st.just("error")),
    st.builds(
        InjectedInstruction,
        target=LANES,
        turn_id=st.just("t"),
        text=st.just("x"),
        by=st.sampled_from(["user", "edge"]),
        speaker=SPEAKERS,
    ),
    st.builds(
        Reply,
        turn_id=st.none(),
        dm=st.just("d"),
        text=st.just("x"),
        kind=st.just("message"),
        from_lane=st.just("") | LANES,
    ),
)


@given(st.lists(st.tuples(LANES, EVENTS), max_size=30))
def test_memory_and_the_agent_agree_on_the_trust_of_each_lane(
    log: list[tuple[str, EventPayload]],
) -> None:
    taint, by_lane = SessionTaint(), dict[str, int]()
    lanes, edges = LaneTrust(by_lane), dict[str, str]()
    for place, (lane, payload) in enumerate(log):
        # Only the first event of a session starts it.
        if isinstance(payload, SessionStarted) and place:
            continue
        edge = edges.get(payload.job_name) if isinstance(payload, ENDS) else None
        if isinstance(payload, CoreStarted):
            edges[payload.job_name] = edge_lane_of(lane)
        elif isinstance(payload, CoreStopped):
            edges.pop(payload.job_name, None)
        taint = apply_to_taint(taint, lane, payload, edge=edge)
        lanes.take(lane, payload)
        for name in ("edge", "edge:desk", "core:dig", "core:read"):
            assert lanes.of(name) == taint.lane(name).trust
