"""What conversations see of work: typing while an agent lives and works, one card a job."""

from choir_common.clock import SystemClock
from choir_common.eventlog.chain import Head, head_of, link
from choir_common.wire.events import (
    CoreReported,
    CoreStarted,
    CoreStopped,
    Event,
    EventPayload,
    Reply,
    UserMsg,
)
from choir_control.activity.read import cards_of, is_busy_after
from choir_control.inbox.names import safe_name

ASKED = UserMsg(turn_id="t", inbox_id="in_1", dm="console", text="hi")


def events(*payloads: EventPayload, lane: str = "edge") -> list[Event]:
    made, head = [], Head()
    for payload in payloads:
        made.append(link(head, "ses_1", lane, payload, SystemClock().now()))
        head = head_of(made[-1])
    return made


def a_reply(kind: str) -> Reply:
    return Reply.model_validate({"turn_id": "t", "dm": "console", "text": "x", "kind": kind})


def test_an_agent_is_at_work_from_a_message_to_its_answer() -> None:
    assert is_busy_after(events(ASKED), before=False)
    assert is_busy_after(events(ASKED, a_reply("notice")), before=False)
    assert not is_busy_after(events(ASKED, a_reply("answer")), before=False)
    assert is_busy_after([], before=True) and not is_busy_after([], before=False)
    assert not is_busy_after(events(a_reply("report"), lane="edge"), before=True)


def test_a_job_has_one_card_from_its_start_to_its_end() -> None:
    named = {"job_id": "job_1", "job_name": "tidy"}
    started = CoreStarted(**named, call_id="c", dm="console", task_spec="Tidy  up\nthe files.")
    told = CoreReported(**named, kind="progress", body={"text": "half of it"})
    ended = CoreStopped(**named, outcome="completed", steps=3, duration_ms=4_000)
    cards = list(cards_of(events(ASKED, started, told, ended)))
    assert {card.card_id for card in cards} == {"job_1"}
    assert [card.text for card in cards] == [
        "⏳ tidy: Tidy up the files.",
        "⏳ tidy: half of it",
        "✅ tidy: done (4 s, 3 steps).",
    ]
    assert [card.done for card in cards] == [False, False, True]


def test_a_strangers_file_name_becomes_a_safe_one_of_its_own() -> None:
    assert safe_name("../../etc/passwd", "in_abc", 1) == "abc-1-passwd"
    assert safe_name("C:\\x\\my cat?.JPG", "in_abc", 2) == "abc-2-my_cat_.JPG"
    assert safe_name("...", "in_abc", 1) == "abc-1-file"
    assert len(safe_name("ü" * 255 + ".pdf", "in_abc", 1).encode()) <= 120
