"""The language in which Choir talks to a person: said by the app, chosen by `/language`, and kept."""

from choir_common.clients.control import NatsControlClient
from tests.service.control.test_following import name_people
from tests.service.control.world import World, a_message


async def test_a_persons_language_is_that_of_the_app_or_chosen_in_all_conversations_and_kept(
    world: World,
) -> None:
    await name_people(world)  # console and second are Ada's, phone is Bob's
    control = NatsControlClient(world.bus)
    count = 0

    async def say(text: str, dm: str, app: str = "") -> str:
        nonlocal count
        count += 1
        message = a_message(text, f"l{count}", dm).model_copy(update={"language": app})
        return (await control.accept(message)).note or ""

    async def languages() -> dict[str, str]:
        table = await control.channels()
        return {dm.name: dm.language for dm in table.dms}

    assert "in English" in await say("/language", "phone")
    assert "in der Sprache Deutsch" in await say("/language", "second", app="de-AT")
    assert await languages() == {"console": "de", "second": "de", "phone": "en"}
    await world.stop()
    await world.start()
    assert "in der Sprache Deutsch" in await say("/language", "console"), "kept for the person"
    assert "are in English" in await say("/language English", "second")
    assert "are in English" in await say("/language", "console", app="de")
    assert "keine Übersetzung" in await say("/language fr", "phone", app="de")
    await world.stop()
    await world.start()
    assert "are in English" in await say("/language", "console"), "the choice outweighs the app"
    assert "in der Sprache Deutsch" in await say("/language auto", "console")
