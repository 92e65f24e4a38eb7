"""What users see of work that goes on, told over the bus: typing, and cards that survive restarts."""

from dataclasses import dataclass, field

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.control import NatsControlClient
from choir_common.wire.activity import Card, CardMessage, DmActivity, Draft, Idle, Typing
from choir_common.wire.events import CoreReported, CoreStarted, CoreStopped
from choir_common.wire.rpc import ReplyDraft, StatusRequest
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_notices import hears
from tests.service.control.world import World, until

JOB = {"job_id": "job_1", "job_name": "tidy"}
STARTED = CoreStarted(**JOB, call_id="c", dm="console", task_spec="Tidy up.")
STOPPED = CoreStopped(**JOB, outcome="completed", steps=3, duration_ms=4_000)


@dataclass
class Watcher:
    """Hears what gateways hear."""

    heard: list[DmActivity] = field(default_factory=list)

    async def hear(self, activity: DmActivity) -> None:
        self.heard.append(activity)

    def cards(self, card_id: str) -> list[Card]:
        """Return the updates of a card, in order."""
        told = [activity.what for activity in self.heard]
        return [what for what in told if isinstance(what, Card) and what.card_id == card_id]

    async def card(self, card_id: str, words: str) -> Card:
        """Wait until a card says something; return it."""

        async def said() -> bool:
            return any(words in card.text for card in self.cards(card_id))

        await until(said)
        return next(card for card in self.cards(card_id) if words in card.text)


@pytest.fixture
async def watcher(bus: Bus) -> Watcher:
    made = Watcher()
    await bus.subscribe_events(subjects.dm_activity(), DmActivity, made.hear)
    return made


async def test_an_agents_work_is_told_from_a_message_to_its_answer(
    watcher: Watcher, world: World, agent: AgentHand
) -> None:
    await world.say("hello", "1")
    turn = await agent.take_up(await agent.next_message())
    assert turn

    async def typing() -> bool:
        return any(isinstance(activity.what, Typing) for activity in watcher.heard)

    await until(typing)
    await agent.reply("Good morning.")

    async def idle() -> bool:
        return any(isinstance(activity.what, Idle) for activity in watcher.heard)

    await until(idle)
    assert {(told.dm, told.gateway) for told in watcher.heard} == {("console", "console")}


async def test_a_draft_is_told_until_its_reply_is_stored_and_is_stored_nowhere(
    watcher: Watcher, world: World, agent: AgentHand
) -> None:
    async def writes(text: str) -> None:
        draft = ReplyDraft(read_rev=agent.head.rev, text=text)
        report = StatusRequest(lane="edge", state="EDGE_REASONING", draft=draft)
        await agent.call("REPORT_STATUS", report)

    def drafts() -> list[str]:
        return [told.what.text for told in watcher.heard if isinstance(told.what, Draft)]

    async def told() -> bool:
        return drafts() == ["Good mo"]

    await world.say("hello", "1")
    await agent.take_up(await agent.next_message())
    read_rev = agent.head.rev
    await writes("Good mo")
    await until(told)
    await agent.reply("Good morning.")
    # a report that was overtaken by the reply
    late = ReplyDraft(read_rev=read_rev, text="Good mor")
    await agent.call(
        "REPORT_STATUS", StatusRequest(lane="edge", state="EDGE_REASONING", draft=late)
    )

    async def idle() -> bool:
        return any(isinstance(activity.what, Idle) for activity in watcher.heard)

    await until(idle)
    assert drafts() == ["Good mo"]


async def test_a_card_is_told_with_the_message_that_shows_it_also_after_a_restart(
    watcher: Watcher, world: World, agent: AgentHand
) -> None:
    agent.add(STARTED)
    await agent.flush()
    assert (await watcher.card("job_1", "Tidy up.")).message_id is None
    # as a gateway does once it has shown it
    shown = CardMessage(dm="console", card_id="job_1", message_id="m7")
    await NatsControlClient(world.bus).keep_card(shown)
    agent.add(CoreReported(**JOB, kind="progress", body={"text": "half of it"}))
    await agent.flush()
    assert (await watcher.card("job_1", "half of it")).message_id == "m7"

    await world.stop()
    await world.start()
    resumed = await world.agent()
    await resumed.hello()
    resumed.add(STOPPED)
    await resumed.flush()
    ended = await watcher.card("job_1", "done (4 s, 3 steps)")
    assert ended.message_id == "m7" and ended.done
    # the message was deleted by its user: the gateway made another
    await NatsControlClient(world.bus).keep_card(shown.model_copy(update={"message_id": "m9"}))
    resumed.add(CoreReported(**JOB, kind="progress", body={"text": "more of it"}))
    await resumed.flush()
    assert (await watcher.card("job_1", "more of it")).message_id == "m9"


async def test_cards_of_another_conversation_are_none_of_this_ones(
    watcher: Watcher, world: World, agent: AgentHand
) -> None:
    shown = CardMessage(dm="second", card_id="job_1", message_id="m7")
    await NatsControlClient(world.bus).keep_card(shown)
    agent.add(STARTED)
    await agent.flush()
    assert (await watcher.card("job_1", "Tidy up.")).message_id is None


async def test_an_update_of_all_agents_is_one_card_and_one_word_at_its_end(
    watcher: Watcher, world: World, agent: AgentHand
) -> None:
    note = (await world.say("/update-all", "1")).note or ""
    operation = note.partition("/operation ")[2].split()[0]
    ended = await watcher.card(operation, "✅ agent update-all: 3 of 3")
    assert ended.done and ended.text.splitlines()[1:] == [
        f"✅ {name} skipped: it has no repository" for name in ("main", "never", "other")
    ]
    await hears(world, "agent update-all of all: main skipped")
    assert len(world.gateway.texts) == 1, "each agent is seen, and said once in the end"


async def test_the_card_of_a_work_that_was_cut_off_says_so(
    watcher: Watcher, stopped: World
) -> None:
    await stopped.database.execute(
        """
        INSERT INTO choir_control.operations (operation_id, kind, subject, dm, gateway, has_card)
        VALUES ('op_1', 'agent update-all', 'all', 'console', 'console', true),
               ('op_2', 'agent stop', 'main', 'console', 'console', false)
        """
    )
    await stopped.start()
    card = await watcher.card("op_1", "interrupted")
    assert card.done and card.text == "⛔ agent update-all: interrupted, start it again"
    await hears(stopped, "agent stop of main was interrupted")
    assert watcher.cards("op_2") == []
