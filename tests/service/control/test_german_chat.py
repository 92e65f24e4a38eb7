"""A person whose Telegram is German: no answer to a command in the chat has an English sentence in it."""

import re

from choir_common.clients.control import NatsControlClient
from choir_control.conversations.commands.table import CHAT_COMMANDS
from tests.service.choirctl.test_german import ENGLISH_WORDS, OTHERS_WORDS
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_notices import ask
from tests.service.control.world import World, a_message, until

ARGUMENTS = {
    "/approve": ("", "0"),
    "/reject": ("", "0"),
    "/cancel": ("", "job-1"),
    "/events": ("", "3", "x"),
    "/forget": ("", "Tee", "session", "last 10 minutes"),
    "/inject": ("", "Beeil dich"),
    "/language": ("", "fr", "de"),
    "/memory": ("", "synced", "laut"),
    "/model": ("", "nix"),
    "/model llm": ("", "nix"),
    "/voice": ("", "nix"),
    "/schedule add": ("", "in 5m remind Tee", "in 5m kochen Tee", "at 25:00 remind Tee"),
    "/schedule update": ("", "1 text Kaffee", "99 text Kaffee"),
}
"""What is typed after a command; the others are typed alone, and with a name that does not exist."""
COMMANDS = re.compile(r"/[a-z]+(?: [^.]*)?|\bchoirctl [^.]*")


async def test_no_answer_in_a_german_chat_has_an_english_sentence(
    world: World, agent: AgentHand
) -> None:
    control = NatsControlClient(world.bus)
    count = 0

    async def say(text: str) -> str:
        nonlocal count
        count += 1
        message = a_message(text, f"g{count}", "console").model_copy(update={"language": "de-DE"})
        return (await control.accept(message)).note or ""

    await say("/language de")
    approval = await ask(agent)
    typed = {row.typed_form for row in CHAT_COMMANDS if row.typed_form}
    # these end the agent that the others ask about
    last = {it for it in typed if it.split()[0] in {"/reset", "/restart", "/stop", "/apply"}}
    answers = {}
    for form in (*sorted(typed - last), *sorted(last), "/start", "/nix"):
        for words in ARGUMENTS.get(form, ("", "nix")):
            line = f"{form} {words}".strip()
            answers[line] = await say(line)
    answers["/approve"] = await say(f"/approve {approval}")

    async def is_told() -> bool:
        return any(approval in text for text in world.gateway.texts)

    await until(is_told, 60)
    assert len([it for it in answers.values() if it]) > len(typed)
    english = [
        f"{line}: {part}"
        for line, answer in (*answers.items(), *(("told", it) for it in world.gateway.texts))
        for part in answer.splitlines()
        if ENGLISH_WORDS.search(OTHERS_WORDS.sub("", COMMANDS.sub("", part)))
    ]
    assert english == [], english
