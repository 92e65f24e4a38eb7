"""Every command of a conversation, typed on a phone: what it answers, and whom it reaches."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from choir_common.http.client import make_client
from choir_control.conversations.commands.spec import CommandScope
from choir_control.conversations.commands.table import CHAT_COMMANDS
from tests.journey.town import LOBBY, Phone, Town, founding_town
from tests.support.repositories import GitRepository
from tests.support.stack import read_log, sessions_of

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # tests/service/control/test_commands.py and its neighbours give each command
    pytest.mark.nightly,
]
ADMINS = sorted(
    row.typed_form for row in CHAT_COMMANDS if row.typed_form and row.scope is CommandScope.ADMIN
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    made = GitRepository(tmp_path_factory.mktemp("repos") / "aide.git")
    made.commit({"identity/SOUL.md": "You are the aide."})
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(repository: GitRepository) -> AsyncIterator[Town]:
    def edit(config: dict[str, Any]) -> None:
        config["agents"]["aide"]["repo"] = {"url": str(repository.path)}

    async with founding_town(edit=edit) as founded:
        yield founded


async def view(town: Town, agent: str) -> dict[str, Any]:
    async with make_client(town.stack.endpoint) as client:
        found: dict[str, Any] = (await client.get(f"/v1/agents/{agent}")).json()
        return found


async def sees_in_time(phone: Phone, text: str, *words: str) -> None:
    """Give a command until its answer holds one of these: what lanes do is told once a second."""
    async with asyncio.timeout(120):
        while True:
            answer = await phone.asks(text, ":")
            if any(one in answer for one in words):
                return


async def refuses(phone: Phone, text: str, words: str) -> None:
    """The command is refused with these words, and nothing is done."""
    assert "Nothing was done." in await phone.asks(text, words)


async def test_three_people_talk_with_their_own_agents_over_two_bots(town: Town) -> None:
    assert "no image was built yet" in await town.ada.asks("/start aide dm=cleo", "aide has")
    await town.ada.asks("/agent build aide", "aide is being built")
    await town.ada.sees("agent build of aide: ")
    await town.ada.asks("/start aide dm=cleo", "aide has started in cleo")
    for phone in (town.ada, town.ben, town.cleo):
        assert await phone.asks("who are you?", "agent of") == "An agent of the town."
    for agent, dm in (("main", "ada"), ("helper", "ben"), ("aide", "cleo")):
        assert (await view(town, agent))["bindings"]["dm"] == dm
        (session,) = await sessions_of(town.stack, agent)
        said = [e for e in await read_log(town.stack, session["session_id"]) if e.type == "reply"]
        assert len(said) == 1


async def test_strangers_are_ignored_in_silence_and_so_are_commands_over_another_bot(
    town: Town,
) -> None:
    from_elsewhere = town.phone(9, LOBBY)  # Cleo is known to the other bot alone
    for stranger in (from_elsewhere, town.phone(666, LOBBY)):
        for text in ("/status", "/stop main", "hello?"):
            update = await stranger.user.send(text)
        await stranger.user.until_confirmed(update, 60)
        assert stranger.user.chat.bot_texts() == []
    assert (await view(town, "main"))["state"] == "running"


async def test_each_person_is_shown_what_they_may_do(town: Town) -> None:
    assert ADMINS[0] in await town.ada.asks("/help", "/status")
    # Telegram sends this when a bot is opened
    assert "Hello. This is" in await town.ben.asks("/start", "/help")
    helped = await town.ben.asks("/help", "/status")
    assert not [typed for typed in ADMINS if typed in helped]
    menus = town.telegram.bot(LOBBY).commands
    names = {chat: {str(c["command"]) for c in menus[chat]} for chat in ("chat:7", "chat:8")}
    assert {"status", "approve", "inject"} <= names["chat:8"] < names["chat:7"]
    assert names["chat:7"] - names["chat:8"] >= {"update_all", "config", "secret", "start"}


async def test_who_is_no_admin_is_refused_what_is_an_admins(town: Town) -> None:
    before = [await view(town, agent) for agent in ("main", "helper")]
    for typed in ADMINS:
        await refuses(town.ben, f"{typed} main", f"{typed.split()[0]} is for admin conversations")
    for text in ("/status main", "/stop main", "/restart main", "/cores main"):
        await refuses(town.ben, text, "It is bound to helper; omit the name")
    for text in ("/model llm other main", "/voice bright main"):
        await refuses(town.ben, text, "It is bound to helper; omit the name")
    after = [await view(town, agent) for agent in ("main", "helper")]
    keys = ("state", "session_id", "epoch", "model", "bindings")
    assert [[v[k] for k in keys] for v in after] == [[v[k] for k in keys] for v in before]


async def test_status_and_events_are_of_the_persons_own_agent(town: Town) -> None:
    status = await town.ben.asks("/status", "helper is running")
    assert "lane edge" in status and "Resources: workspace helper" in status and "dm ben" in status
    assert "main is running" in await town.ada.asks("/status", "Resources:")
    assert "helper is running" in await town.ada.asks("/status helper", "Resources:")
    await town.ben.asks("who are you?", "An agent of the town.")
    events = await town.ben.asks("/events 3", "edge: ")
    assert len(events.splitlines()) == 3
    assert "from 1 to 50" in await town.ben.asks("/events 51", "not a number")


async def test_model_and_voice_are_shown_and_chosen(town: Town) -> None:
    assert "Available: default, other" in await town.ben.asks(
        "/model", "helper uses the model default"
    )
    await town.ben.asks("/model llm other", "helper uses the model other")
    assert (await view(town, "helper"))["model"] == "another"
    assert (await view(town, "main"))["model"] == "rehearsal"
    await town.ben.asks("/model llm default", "helper uses the model default")
    assert "Available: bright, calm" in await town.ben.asks("/voice", "helper uses the voice calm")
    await town.ben.asks("/voice bright", "helper uses the voice bright")
    assert "bright" in await town.ben.asks("/voice", "Available")
    assert "no_such" in await town.ben.asks("/voice no_such", "no_such")


async def test_a_job_is_shown_and_cancelled_by_its_name(town: Town) -> None:
    await town.ben.asks("Please watch the harbour", "I am watching it.")
    card = await town.ben.sees("⏳ harbour: Watch the harbour.")
    await sees_in_time(town.ben, "/cores", "- harbour: ")
    assert "No jobs." in await town.ada.asks("/cores", "main:")
    assert "- harbour: " in await town.ada.asks("/jobs helper", "helper:")
    after = town.ben.newest
    assert "ends" in await town.ben.asks("/cancel harbour", "The job harbour")
    await town.ben.sees("'harbour' was cancelled", after)
    # a job that has ended stays in the list for a minute
    await sees_in_time(town.ben, "/cores", "No jobs.", "- harbour: terminated")
    await town.ben.user.wait_until(lambda _: card.text.startswith("⛔ harbour: cancelled"), 120)


async def test_words_are_injected_into_a_turn_at_work_and_what_was_said_is_summed_up(
    town: Town,
) -> None:
    after = town.ben.newest
    await town.ben.user.send("Please count slowly")
    # the turn must be at work: an instruction that comes before it is read with the message
    async with asyncio.timeout(120):
        while not (town.workspace("helper") / "counting").exists():
            await asyncio.sleep(0.05)
    await town.ben.asks("/inject say it in verse", "reads it at its next step")
    # the next step must not begin before the agent has the instruction
    await sees_in_time(town.ben, "/events 5", "say it in verse")
    (town.workspace("helper") / "told").touch()
    await town.ben.sees("In verse it is.", after)
    assert "in the background" in await town.ben.asks("/compact", "helper summarizes")


async def test_a_person_restarts_and_stops_their_agent_and_only_an_admin_starts_it(
    town: Town,
) -> None:
    before = (await view(town, "helper"))["session_id"]
    await town.ben.asks("/restart", "helper has restarted")
    assert (await view(town, "helper"))["session_id"] != before
    await town.ben.asks("/stop", "helper has stopped.")
    assert "/start is for admin" in await town.ben.asks("/start helper", "Nothing was done.")
    waits = await town.ben.asks("who are you?", "Your message is kept")
    assert waits.startswith("helper is not running.")
    after = town.ben.newest
    assert "dm:ada is in use by agent main" in await town.ada.asks("/start helper", "cannot start")
    await town.ada.asks("/start helper --dm=ben", "helper has started in ben")
    await town.ben.sees("An agent of the town.", after)


async def test_an_admin_stops_and_restarts_any_agent(town: Town) -> None:
    await town.ada.asks("/restart helper", "helper has restarted")
    await town.ada.asks("/stop helper", "helper has stopped.")
    assert "helper: stopped" in await town.ada.asks("/agent list", "main: running")
    assert "not running" in await town.ada.asks("/stop helper", "helper is not")
    await town.ada.asks("/start helper dm=ben voice_profile=bright", "helper has started in ben")
    assert "voice profile bright" in await town.ada.asks("/status helper", "Resources:")
    await refuses(town.ada, "/start helper colour", "is not name=value")


async def test_an_admin_builds_and_updates(town: Town, repository: GitRepository) -> None:
    repository.commit({"identity/SOUL.md": "You are the aide, and kind."})
    before, after = (await view(town, "aide"))["session_id"], town.ada.newest
    begun = await town.ada.asks("/update aide", "aide is being updated")
    await town.ada.sees("agent update of aide: ", after)
    operation = begun.split("/operation ")[1].split()[0]
    assert "succeeded" in await town.ada.asks(f"/operation {operation}", "agent update of aide")
    assert (await view(town, "aide"))["session_id"] != before  # it runs the new image
    after = town.ada.newest
    await town.ada.asks("/update-all", "All agents are being updated")
    told = (await town.ada.sees("agent update-all of all: ", after)).text
    assert "aide" in told and "helper skipped: it has no repository" in told


async def test_an_admin_loads_looks_at_and_applies_a_configuration(town: Town) -> None:
    assert "Review the changes" in await town.ada.asks("/config apply", "Review the changes")
    town.configure(lambda config: config.update(event_window=64))
    assert "event_window" in await town.ada.asks("/config load", "Staged: 1 change of")
    assert "event_window" in await town.ada.asks("/config diff", "Waiting: 1 change of")
    await town.ada.asks("/config apply", "is active, with 1 change;")
    shown = json.loads(town.stack.run("config", "show", "--json"))
    assert shown["config"]["event_window"] == 64


async def test_an_admin_sees_workspaces_and_secrets_and_empties_one(town: Town) -> None:
    (town.workspace("helper") / "left-over").write_text("x")
    assert "helper: helper, " in await town.ada.asks("/workspace list", "main: main, ")
    secrets = await town.ada.asks("/secret list", "lobby-token: set")
    assert "annex-token: set, used by gateways.annex" in secrets and LOBBY not in secrets
    await town.ada.asks("/workspace reset helper", "Reply yes to continue")
    assert (town.workspace("helper") / "left-over").exists()
    await town.ada.asks("yes", "helper is being reset")
    await town.ada.sees("workspace reset of helper: ")
    assert not (town.workspace("helper") / "left-over").exists()
    assert (await view(town, "helper"))["state"] == "stopped"


async def test_a_long_answer_to_a_command_comes_whole(town: Town) -> None:
    """Fifty events are more than Telegram takes in one message."""
    for number in range(16):
        words = f"{number} " + "many words " * 12
        await town.ada.asks(words, "I have no line for that: " + str(number))
    after = town.ada.newest
    first = await town.ada.asks("/events 50", "edge: ")
    (session,) = await sessions_of(town.stack, "main")
    last = (await read_log(town.stack, session["session_id"]))[-1]
    shown = await town.ada.sees(f"{last.rev} {last.at[11:19]}", after)
    assert shown.text != first
