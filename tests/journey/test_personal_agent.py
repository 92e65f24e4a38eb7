"""Ten things that a person expects of a personal agent, on one whole stack with Telegram and a keyed model.

| expectation | here | also |
|---|---|---|
| reminder | comes once, word for word, after a restart | `test_schedules`, `faults/test_schedule_kills` |
| thread | a reply is read as one, and answered at its message | `test_town_talk` (corrections) |
| preference | told in one session, used in the next | `test_reminders`, `test_first_conversation` |
| secrets | in no answer, log, page, file or prompt | `security/agent/test_canary`, `test_incognito` |
| consent | the effect happens once, and is told | `test_town_approvals` (proposals, buttons) |
| refusal | no effect, no way round it, and it is said | `test_town_approvals` |
| status | all ways to ask agree with the log | `test_core_jobs`, `test_town_commands` |
| diagnostics | contain no secret and no message | |
| progress | cards and drafts show what the log has | `test_town_commands`, `test_streaming` |
| recovery | an outage is told, a kill is not noticed | `faults/test_kill`, `faults/test_provider_outage` |

The tests run in this order on one stack; the last ones look at what all of them left behind.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from choir_common.http.client import make_client
from choir_common.wire.events import (
    CoreStarted,
    CoreStopped,
    ModelOutput,
    Reply,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_gateway.channels.labels import REPEATED
from choir_testing.providers.provider import KEY, Disconnect, ErrorFault, Hang
from choir_testing.telegram import SentMessage
from tests.faults.mending import await_return
from tests.journey.personal_agent import (
    LEDGER,
    PRIVATE,
    TALE,
    VAULT_CODE,
    PersonalAgent,
    running_personal_agent,
)
from tests.journey.phone import BOT_TOKEN
from tests.journey.test_incognito import dump_database, files_with
from tests.journey.town import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")
SEAT = "The user prefers a window seat on trains."
CAKE = f"call Ann & bring <b>cake</b>, *not* 2_3_4 pies ({PRIVATE})"
DECISION = "waits for your decision"
SECRETS = (VAULT_CODE, KEY, BOT_TOKEN)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent() -> AsyncIterator[PersonalAgent]:
    async with running_personal_agent() as running:
        yield running


async def kill_and_await_return(agent: PersonalAgent, name: str) -> None:
    old_pid = await agent.stack.agent_pid() if name == "agent" else agent.stack.pid(name)
    await agent.stack.kill(name)
    await await_return(agent.stack, name, old_pid)


async def until_asked(agent: PersonalAgent, after: int) -> SentMessage:
    """Wait for a message that asks for consent."""
    return await agent.phone.finds(lambda message: bool(message.buttons), after, "buttons")


async def choirctl(agent: PersonalAgent, *words: str) -> str:
    return await asyncio.to_thread(agent.stack.run, *words, check=False)


async def until_status(agent: PersonalAgent, *expected: str, without: str = "\0") -> None:
    """Wait until `/status` and `choirctl status` both say this: lanes report once a second."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            said = await agent.phone.asks("/status", "Resources:")
            shown = await choirctl(agent, "status")
            if all(
                words in text and without not in text
                for words in expected
                for text in (said, shown)
            ):
                return
            await asyncio.sleep(0.2)


async def test_a_preference_of_one_session_is_used_in_the_next(agent: PersonalAgent) -> None:
    phone = agent.phone
    await phone.asks(f"Please remember: {SEAT}", "Remembered.")
    await phone.asks("/restart", "main has restarted")
    question = "For my train to Porto: which seat do I prefer?"
    await phone.asks(question, "A window seat, as you told me.")
    prompt = next(it.raw.decode() for it in agent.model.requests if question in it.raw.decode())
    assert SEAT in prompt


async def test_a_reminder_comes_once_and_word_for_word_across_a_restart(
    agent: PersonalAgent,
) -> None:
    phone, after = agent.phone, agent.phone.newest
    await phone.asks(f"Remind me in 5 s: {CAKE}", "I will remind you.")
    await kill_and_await_return(agent, "control")
    # labelled if the attempt before may have arrived, which a kill of control can leave open
    forms = (CAKE, f"{REPEATED} {CAKE}")
    reminder = await phone.finds(lambda message: message.text in forms, after, CAKE)
    assert reminder.reply_to is None
    # the next answer comes behind whatever was said twice
    await phone.asks("thank you", "Noted: thank you")
    assert sum(text in forms for text in agent.bot_texts_after(after)) == 1


async def test_a_reply_is_read_as_one_and_answered_at_its_message(agent: PersonalAgent) -> None:
    phone = agent.phone
    old = await phone.finds(lambda message: "Remembered." in message.text)
    after = phone.newest
    await phone.user.reply(old, "What about that one?")
    question = phone.user.last_sent()
    await phone.user.until_confirmed(await phone.user.send("And what else?"))
    (agent.stack.home / "workspaces" / "main" / "answer-now").touch()
    answer = await phone.sees("That one said: Remembered.", after)
    assert answer.reply_to == question.message_id
    # nothing was asked behind this one, so that it needs no reference
    assert (await phone.sees("Noted: And what else?", after)).reply_to is None
    quoted = [it.reply_to for it in await agent.logged(UserMessageStarted) if it.reply_to]
    assert quoted == ["Remembered."]


async def test_with_consent_an_effect_happens_once_and_is_told(agent: PersonalAgent) -> None:
    phone, after = agent.phone, agent.phone.newest
    await phone.user.send("Please write down: a loaf of bread")
    asked = await until_asked(agent, after)
    assert LEDGER in asked.text and "the ledger" in asked.text
    await kill_and_await_return(agent, "agent")
    assert agent.ledger == []
    for _ in range(2):
        await phone.user.forge_press(asked, asked.buttons[0])
    await phone.sees("Written: success.", after)
    await phone.user.wait_until(lambda _: not asked.buttons, PATIENCE_S)
    assert asked.text.startswith("Approved by dm phone")
    assert agent.ledger == ["a loaf of bread"]
    assert agent.bot_texts_after(after).count("Written: success.") == 1


async def test_without_consent_nothing_happens_in_any_way_and_it_is_said(
    agent: PersonalAgent,
) -> None:
    phone, before = agent.phone, agent.ledger
    after = phone.newest
    await phone.user.send("Please write down: a secret debt")
    await phone.user.press(await until_asked(agent, after), "Reject")
    told = (await phone.sees("Not written: ", after)).text
    assert "rejected this call" in told and "another way" in told
    after = phone.newest
    await phone.user.send("Insist on: a secret debt")
    first = await until_asked(agent, after)
    await phone.user.press(first, "Reject")
    await phone.user.press(await until_asked(agent, first.message_id), "Reject")
    await phone.sees("Tried twice: refused, refused.", after)
    assert agent.ledger == before
    results = await agent.logged(ToolResultCommitted)
    assert [it.status for it in results].count("refused") == 3


async def test_each_way_to_ask_for_the_status_agrees_with_the_log(agent: PersonalAgent) -> None:
    phone, after = agent.phone, agent.phone.newest
    await phone.asks("Please watch the harbour", "Started: success.")
    await until_status(agent, "job harbour: thinking", without=DECISION)
    assert "harbour: thinking" in await phone.asks("/cores", "main: ")
    assert '"job_name":"harbour"' in await phone.asks("So, what are you doing?", "At work: ")
    await phone.asks("/cancel harbour", "The job harbour")
    await phone.sees("'harbour' was cancelled", after)

    await phone.asks("Please do the impossible", "Started: success.")
    report = (await phone.sees("'impossible' failed", after)).text
    assert "This cannot be done." in report
    assert "job_name" not in await phone.asks("So, what are you doing?", "At work: ")
    ends = {it.job_name: it.outcome for it in await agent.logged(CoreStopped)}
    assert ends == {"harbour": "cancelled", "impossible": "error"}
    await until_status(agent, "main ", without="impossible: thinking")

    after = phone.newest
    await phone.user.send("Please write down: nothing at all")
    asked = await until_asked(agent, after)
    await until_status(agent, f"1 request {DECISION}", "waiting for a tool")
    await phone.user.press(asked, "Reject")
    await phone.sees("Not written: ", asked.message_id)
    await until_status(agent, "main ", without=DECISION)


async def test_an_outage_is_told_once_and_after_a_kill_the_question_is_answered_once(
    agent: PersonalAgent,
) -> None:
    phone, model, after = agent.phone, agent.model, agent.phone.newest
    model.outage = Disconnect()
    # the card of a job that failed may change this late, and begins with the same words
    told = (await phone.asks("What is six times seven?", "cannot be reached")).strip()
    assert f"from the model {model.model} at {model.endpoint}" in told and "try again" in told
    await until_status(agent, "model has not responded for")
    model.outage = Hang()
    calls = len(model.requests)
    await phone.user.send("What is six times eight?")
    async with asyncio.timeout(PATIENCE_S):
        while len(model.requests) == calls:
            await asyncio.sleep(0.02)
    await agent.stack.kill("agent")
    model.outage = None
    await phone.sees("Forty-eight.", after)
    assert await phone.asks("What is six times seven?", "Forty-two.") == "Forty-two."
    texts = agent.bot_texts_after(after)
    assert texts.count("Forty-eight.") == texts.count("Forty-two.") == 1
    assert sum(text.startswith("I could not") for text in texts) == 1
    answered = Counter(it.answers for it in await agent.logged(Reply) if it.answers)
    assert set(answered.values()) == {1}


async def test_progress_shows_what_the_log_has_and_nothing_else(agent: PersonalAgent) -> None:
    phone, after = agent.phone, agent.phone.newest
    await phone.asks("Please tidy up quietly", "Started: success.")
    await phone.sees("There was nothing to tidy.", after)
    await phone.asks("Please tell me a tale", TALE)
    await phone.user.wait_until(lambda _: bool(cards_of(agent, "✅ tidy")), PATIENCE_S)
    started = {it.job_name: it for it in await agent.logged(CoreStarted)}
    ends = {it.job_name: it.outcome for it in await agent.logged(CoreStopped)}
    assert ends == {"harbour": "cancelled", "impossible": "error", "tidy": "completed"}
    words = {
        "cancelled": "⛔ {}: cancelled (",
        "error": "⛔ {}: failed (",
        "completed": "✅ {}: done (",
    }
    # at most one card a job, in its last state; none for turns, questions and reminders. A card that changed
    # while the agent or the gateway was away may be missing, as cards are not stored.
    expected = [words[outcome].format(name) for name, outcome in ends.items()]
    cards = cards_of(agent, "✅ ", "⛔ ", "⏳ ")
    assert started.keys() == ends.keys()
    shown = [it for card in cards for it in expected if card.startswith(it)]
    assert len(shown) == len(cards) == len(set(shown)) and "✅ tidy: done (" in shown
    outputs = [letters(it.text) for it in await agent.logged(ModelOutput)]
    drafts = [draft.text for draft in phone.user.chat.drafts]
    assert [it for it in drafts if not any(o.startswith(letters(it)) for o in outputs)] == []


def letters(text: str) -> str:
    """Return a text without what Markdown may have removed from it."""
    return "".join(filter(str.isalnum, text))


def cards_of(agent: PersonalAgent, *beginnings: str) -> list[str]:
    """Return the bot's messages that begin so."""
    return [it for it in agent.phone.user.chat.bot_texts() if it.startswith(beginnings)]


async def test_secrets_are_in_no_answer_log_page_file_or_prompt(agent: PersonalAgent) -> None:
    phone, after = agent.phone, agent.phone.newest
    for secret in SECRETS:
        await phone.asks(f"for later: {secret}", "Noted: for later: [redacted]")
    await phone.user.edit(phone.user.last_sent(), f"for later: {VAULT_CODE}!")
    await phone.sees("for later: [redacted]!", after)
    await phone.asks(f"/secret set vault-code {VAULT_CODE}", "Nothing was")
    await phone.asks("Please tell me the key", "The key is [redacted], and that is all.")
    agent.model.script(ErrorFault("key", f"Incorrect API key provided: {KEY}."))
    await phone.asks("hello", "I could not get an answer")
    await phone.asks(f"Remind me in 90000 s: {VAULT_CODE}", "I will remind you.")
    await phone.asks(f"/schedule add in 2d remind {VAULT_CODE}", "[redacted]")

    said = phone.user.chat
    places = {
        "chat": "\n".join([*said.bot_texts(), *(draft.text for draft in said.drafts)]),
        "calls of the bot": str(phone.user.bot.calls),
        "prompts": agent.model.prompts.decode(),
        "database": await asyncio.to_thread(dump_database, agent.stack),
        **await pages_of(agent),
    }
    for secret in SECRETS:
        assert [name for name, text in places.items() if secret in text] == []
        assert files_with(agent.stack.home, secret) == ["secrets.json"]
    # the search itself works
    for name in ("chat", "prompts", "database"):
        assert "for later: [redacted]" in places[name]
    assert "/v1/agents/main" in places and "/v1/config" in places
    assert agent.model.refusals == []


async def pages_of(agent: PersonalAgent) -> dict[str, str]:
    """Return every page of /v1 that is no stream, with the ids of the agent."""
    async with make_client(agent.stack.endpoint) as client:
        session = (await client.get("/v1/agents/main")).json()["session_id"]
        document = (await client.get("/v1/openapi.json")).json()
        ids = {"{agent_id}": "main", "{session_id}": session, "{dm}": "phone"}
        pages = {}
        for path, operations in document["paths"].items():
            for name, value in ids.items():
                path = path.replace(name, value)
            if "{" in path or "get" not in operations:
                continue
            async with client.stream("GET", path, timeout=10) as response:
                if "event-stream" not in response.headers.get("content-type", ""):
                    pages[path] = (await response.aread()).decode()
        return pages


async def test_diagnostics_contain_no_secret_and_no_message(agent: PersonalAgent) -> None:
    logs = sorted((agent.stack.home / "logs").glob("*.log"))
    shown = {
        log.stem: await choirctl(agent, "logs", log.stem, "--no-follow", "--json") for log in logs
    }
    for command in ("doctor", "status"):
        shown[command] = await choirctl(agent, command, "--json")
        assert json.loads(shown[command])
    assert {"choird", "gateway", "main", "memory", "egress"} <= shown.keys()
    for canary in (*SECRETS, PRIVATE, "a loaf of bread", "six times", "Forty-eight", SEAT):
        assert [name for name, text in shown.items() if canary in text] == [], canary
