"""What conversations see of work: typing while an agent lives and works, one card a job or work."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from choir_common.bus.client import Bus
from choir_common.clock import SystemClock
from choir_common.errors import Unavailable
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.postgres.pool import Database
from choir_common.wire.activity import MAX_CARD, Card, DmActivity, Draft, Idle, Typing
from choir_common.wire.config import Config
from choir_common.wire.events import (
    NON_CLOSING_KINDS,
    CoreReported,
    CoreStarted,
    CoreStopped,
    Event,
    EventPayload,
    Reply,
    UserMessageStarted,
)
from choir_common.wire.rpc import ReplyDraft, ResourceBindings
from choir_control.agents.operations.progress import ProgressCard, shorten_card
from choir_control.configuration.current import ConfigService
from choir_control.configuration.people import PersonRegistry
from choir_control.conversations.activity.derivation import is_busy_after, job_cards
from choir_control.conversations.activity.publisher import ActivityPublisher, CardStore
from choir_control.log.leases.store import Lease

ASKED = UserMessageStarted(turn_id="t", inbox_id="in_1", dm="console", text="hi")


def events(*payloads: EventPayload, lane: str = "edge") -> list[Event]:
    made, head = [], LogHead()
    for payload in payloads:
        made.append(link_event(head, "ses_1", lane, payload, SystemClock().now()))
        head = head_of(made[-1])
    return made


def a_reply(kind: str) -> Reply:
    return Reply.model_validate({"turn_id": "t", "dm": "console", "text": "x", "kind": kind})


def test_an_agent_is_at_work_from_a_message_to_its_answer() -> None:
    assert is_busy_after(events(ASKED), before=False)
    for passing in NON_CLOSING_KINDS:
        assert is_busy_after(events(ASKED, a_reply(passing)), before=False)
    assert not is_busy_after(events(ASKED, a_reply("answer")), before=False)
    assert is_busy_after([], before=True) and not is_busy_after([], before=False)
    assert not is_busy_after(events(a_reply("report"), lane="edge"), before=True)


def test_a_job_has_one_card_from_its_start_to_its_end() -> None:
    named = {"job_id": "job_1", "job_name": "tidy"}
    started = CoreStarted(**named, call_id="c", dm="console", task_spec="Tidy  up\nthe files.")
    told = CoreReported(**named, kind="progress", body={"text": "half of it"})
    ended = CoreStopped(**named, outcome="completed", steps=3, duration_ms=4_000)
    cards = [it.in_language("en") for it in job_cards(events(ASKED, started, told, ended))]
    assert {card.card_id for card in cards} == {"job_1"}
    assert [card.text for card in cards] == [
        "⏳ tidy: Tidy up the files.",
        "⏳ tidy: half of it",
        "✅ tidy: done (4 s, 3 steps).",
    ]
    assert [card.done for card in cards] == [False, False, True]


def test_the_card_of_a_short_job_counts_one_step() -> None:
    ended = CoreStopped(job_id="j", job_name="tidy", outcome="error", steps=1, duration_ms=1)
    [card] = job_cards(events(ended))
    assert card.in_language("en").text == "⛔ tidy: failed (0 s, 1 step)."
    assert card.in_language("de").text == "⛔ tidy: fehlgeschlagen (0 s, 1 Schritt)."


class NoCards(CardStore):
    """Knows of no message that shows a card."""

    def __init__(self) -> None:
        super().__init__(Database("postgresql://nowhere", None, size=1, application="test"))

    async def find(self, dm: str, card_id: str) -> str | None:
        return None


@dataclass
class RecordingBus:
    """Records what is published; the first `failures` attempts fail."""

    failures: int
    published: list[DmActivity] = field(default_factory=list)
    delivered: asyncio.Event = field(default_factory=asyncio.Event)
    connected = True

    async def publish(self, subject: str, activity: DmActivity) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("away")
        self.published.append(activity)
        self.delivered.set()


async def test_a_card_waits_while_the_bus_is_away_and_only_its_newest_is_told() -> None:
    bus = RecordingBus(failures=2)
    snapshot = SimpleNamespace(gateway_of=lambda _: "console")
    activity = ActivityPublisher(
        NoCards(),
        bus=cast(Bus, bus),
        configuration=cast(ConfigService, SimpleNamespace(current=snapshot)),
        clock=SystemClock(),
    )
    running = asyncio.create_task(activity.run())
    activity.show("console", Card(card_id="op", text="half"))
    while bus.failures == 2:
        await asyncio.sleep(0)
    activity.show("console", Card(card_id="op", text="whole", done=True))
    async with asyncio.timeout(60):
        await bus.delivered.wait()
    running.cancel()
    assert [one.what for one in bus.published] == [Card(card_id="op", text="whole", done=True)]


def test_a_works_card_tells_how_it_goes_on_how_it_ended_and_that_it_was_cut_off() -> None:
    shown: list[tuple[str, Card]] = []

    class RecordingCards:
        def show(self, dm: str, card: Card) -> None:
            shown.append((dm, card))

        def translate(self, dm: str, text: str) -> str:
            return text

    card = ProgressCard(
        RecordingCards(), dm="console", operation_id="op_1", kind="agent update-all"
    )
    card.draw("1 of 2\n✅ main built")
    card.end(well=False)
    card.cut()
    assert {(dm, one.card_id) for dm, one in shown} == {("console", "op_1")}
    assert [(one.text, one.done) for _, one in shown] == [
        ("⏳ agent update-all: 1 of 2\n✅ main built", False),
        ("⛔ agent update-all: 1 of 2\n✅ main built", True),
        ("⛔ agent update-all: interrupted, start it again", True),
    ]


def test_a_card_of_many_lines_keeps_its_head_and_what_came_last() -> None:
    long = shorten_card("head\n" + "\n".join(f"line {number}" for number in range(1_000)))
    assert len(long) <= MAX_CARD
    assert long.startswith("head\n…\n") and long.endswith("line 999")
    assert len(shorten_card("x" * 10_000)) == MAX_CARD


BINDINGS = ResourceBindings(workspace="main", llm="default", dm="console")
LEASE = Lease("ses_1", "main", 1, b"", BINDINGS)

NO_PEOPLE = Config(agents={}, workspaces={})


async def published(*notes: Event | ReplyDraft) -> list[object]:
    """Return what is published for these, in order, when all of them come at once."""
    bus = RecordingBus(failures=0)
    activity = ActivityPublisher(
        NoCards(),
        bus=cast(Bus, bus),
        configuration=cast(
            ConfigService,
            SimpleNamespace(
                current=SimpleNamespace(
                    gateway_of=lambda _: "console", people=PersonRegistry(NO_PEOPLE, {})
                )
            ),
        ),
        clock=SystemClock(),
    )
    for note in notes:
        if isinstance(note, ReplyDraft):
            activity.note_draft(LEASE, "edge", note)
        else:
            activity.note_events(LEASE, [note])
    running = asyncio.create_task(activity.run())
    async with asyncio.timeout(60):
        await bus.delivered.wait()
    await asyncio.sleep(0)
    running.cancel()
    return [one.what for one in bus.published]


async def test_of_several_drafts_the_newest_is_told() -> None:
    (asked,) = events(ASKED)
    drafts = [ReplyDraft(read_rev=1, text=text) for text in ("Once", "Once upon")]
    assert await published(asked, *drafts) == [Typing(lasts_s=30), Draft(text="Once upon")]


async def test_a_draft_ends_with_its_reply_and_none_comes_after_it() -> None:
    asked, replied = events(ASKED, a_reply("answer"))
    late = ReplyDraft(read_rev=1, text="Once")
    assert await published(asked, late, replied, late) == [Idle()]


async def test_a_draft_after_a_notice_is_still_told() -> None:
    asked, notice = events(ASKED, a_reply("notice"))
    draft = ReplyDraft(read_rev=1, text="Once")
    assert Draft(text="Once") in await published(asked, notice, draft)


async def test_after_a_restart_of_control_a_draft_says_that_the_agent_works() -> None:
    draft = ReplyDraft(read_rev=7, text="Once")
    assert await published(draft) == [Draft(text="Once"), Typing(lasts_s=30)]
