"""The logs are signed with a key that is not in the database: rewriting them there is found."""

import json
from collections.abc import Sequence
from datetime import timedelta

from choir_common.eventlog.chain import LogHead, event_hash, find_break
from choir_common.secret_file import read_secret_file
from choir_common.wire.audit import AnchorList
from choir_common.wire.events import Event
from choir_common.wire.operator import LogVerification
from choir_control.app import ControlApp
from choir_control.log.retention.log_eraser import LogEraser
from choir_control.log.retention.log_store import ErasedLogStore, ExpiredLog
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World


async def verify(world: World, agent: AgentHand) -> LogVerification:
    return LogVerification.model_validate_json(
        json.dumps(await world.verify(agent.spec.session_id))
    )


async def rewrite(world: World, agent: AgentHand, rev: int, text: str) -> None:
    """Change an event as the owner of the database can: with every later hash and the head."""
    session_id, previous = agent.spec.session_id, agent.log[rev - 2].hash
    forged: list[Event] = []
    for event in agent.log[rev - 1 :]:
        payload = {**event.payload, "text": text} if event.rev == rev else event.payload
        draft = event.model_copy(update={"payload": payload, "hash_prev": previous})
        forged.append(draft.model_copy(update={"hash": event_hash(draft)}))
        previous = forged[-1].hash
    before = agent.log[: rev - 1]
    assert find_break([*before, *forged]) is None
    for event in forged:
        await world.database.execute(
            "UPDATE choir_control.session_events SET payload = $3, hash_prev = $4, hash = $5 "
            "WHERE session_id = $1 AND rev = $2",
            *(session_id, event.rev, json.dumps(event.payload), event.hash_prev, event.hash),
        )
    await world.database.execute(
        "UPDATE choir_control.sessions SET head_hash = $2 WHERE session_id = $1",
        *(session_id, previous),
    )


async def say(agent: AgentHand, texts: Sequence[str]) -> None:
    for text in texts:
        agent.say(text)
    await agent.flush()


def services(world: World) -> ControlApp:
    assert world.control is not None
    return world.control


async def anchor_now(world: World) -> AnchorList:
    """Let a day pass, and make the anchor of the day."""
    day = timedelta(days=2)
    await world.database.execute(
        "UPDATE choir_control.sessions SET started_at = started_at - $1::interval", day
    )
    store = services(world).services.log.audit.anchors
    if not await store.list_all():
        await services(world).services.log.audit.anchoring.sweep()
    return AnchorList.model_validate_json((await world.get("/v1/audit/anchors")).content)


async def test_a_rewritten_chain_is_found_at_its_first_changed_event(
    world: World, agent: AgentHand
) -> None:
    await say(agent, ("one", "two", "three", "four"))
    intact = await verify(world, agent)
    assert intact.ok and intact.signed_from == 1
    await rewrite(world, agent, 3, "forged")
    found = await verify(world, agent)
    assert not found.ok and found.broken_at == 3
    assert "signature does not match" in str(found.reason)
    # without its signatures the forged part has none
    await world.database.execute(
        "UPDATE choir_control.session_events SET signature = NULL WHERE rev >= 3"
    )
    found = await verify(world, agent)
    assert not found.ok and found.broken_at == 3 and "no signature" in str(found.reason)
    await world.database.execute(
        "UPDATE choir_control.session_events SET signature = NULL WHERE true"
    )
    assert (await verify(world, agent)).broken_at == 1
    # nor does the anchor of the day confirm it: the notice names the log
    await anchor_now(world)
    assert "was changed by something else" in (await world.delivered(5))[-1]
    assert not (await verify(world, agent)).ok


async def test_a_flipped_bit_of_a_signature_is_found(world: World, agent: AgentHand) -> None:
    await say(agent, ("one", "two"))
    await world.database.execute(
        "UPDATE choir_control.session_events SET signature = set_byte(signature, 20, "
        "get_byte(signature, 20) # 1) WHERE rev = 2"
    )
    found = await verify(world, agent)
    assert not found.ok and found.broken_at == 2


async def test_an_anchor_is_sent_to_the_admin_and_a_log_that_was_set_back_is_found(
    world: World, agent: AgentHand
) -> None:
    await say(agent, ("one", "two"))
    (anchor,) = (await anchor_now(world)).anchors
    assert not anchor.fault and anchor.logs == 1 and anchor.signed
    assert anchor.root in (await world.delivered(3))[-1]
    assert (await verify(world, agent)).anchors == 1
    # an earlier state of a log has valid signatures, too
    await world.database.execute("DELETE FROM choir_control.session_events WHERE rev = 3")
    await world.database.execute(
        "UPDATE choir_control.sessions SET head_rev = 2, head_hash = $1", agent.log[1].hash
    )
    found = await verify(world, agent)
    assert not found.ok and found.broken_at == 3 and "anchor 1 has event 3" in str(found.reason)
    await world.database.execute("UPDATE choir_control.audit_anchor_heads SET rev = 2, hash = 'x'")
    (anchor,) = (await anchor_now(world)).anchors
    assert "root does not match" in anchor.fault
    assert not (await verify(world, agent)).ok


async def test_logs_from_before_the_key_are_anchored_when_it_is_made(
    world: World, agent: AgentHand
) -> None:
    await say(agent, ("one", "two", "three"))
    await world.stop()
    world.settings.audit_keys.unlink()
    await world.database.execute("UPDATE choir_control.session_events SET signature = NULL")
    await world.start()
    resumed = await world.agent()
    assert resumed.spec.session_id == agent.spec.session_id
    sealed = await verify(world, agent)
    assert sealed.ok and sealed.anchors == 1, sealed
    await rewrite(world, agent, 2, "forged")
    found = await verify(world, agent)
    assert not found.ok and "anchor 1" in str(found.reason)


async def test_a_database_on_another_machine_says_which_key_is_missing(
    world: World, agent: AgentHand
) -> None:
    await say(agent, ("one", "two"))
    file = world.settings.audit_keys
    old_keys, (old_id,) = file.read_text(), services(world).services.log.audit.keyring.key_ids
    assert file.stat().st_mode & 0o777 == 0o600
    await world.stop()
    file.unlink()
    await world.start()
    elsewhere = await verify(world, agent)
    assert elsewhere.ok and elsewhere.unknown_keys == (old_id,) and elsewhere.anchors == 1
    await world.stop()
    # the key of the old machine comes later: a key of this machine signed meanwhile
    file.write_text(old_keys)
    await world.start()
    assert (await verify(world, agent)).signed_from == 1


async def test_a_new_key_signs_and_the_old_signatures_are_still_checked(
    world: World, agent: AgentHand
) -> None:
    await say(agent, ("one",))
    keys = AnchorList.model_validate_json((await world.post("/v1/audit/rotate")).content).keys
    assert len(keys) == 2
    await say(agent, ("two",))
    assert (await verify(world, agent)).ok
    rows = await world.database.fetch(
        "SELECT encode(substring(signature FOR 4), 'hex') AS key FROM choir_control.session_events "
        "ORDER BY rev"
    )
    assert [row["key"] for row in rows] == [keys[0], keys[0], keys[1]]
    assert len(read_secret_file(world.settings.audit_keys)) == 2


async def test_an_erased_log_keeps_hashes_and_signatures_and_both_are_checked(
    world: World, agent: AgentHand
) -> None:
    await say(agent, ("one", "two"))
    logs = services(world).services.log
    eraser = LogEraser(logs.audit.verifier, ErasedLogStore(world.database), pause_s=0.0)
    head = LogHead(agent.head.rev, agent.head.hash)
    await eraser.erase_events(ExpiredLog(agent.spec.session_id, "main", head, has_hashes=False))
    erased = await verify(world, agent)
    assert erased.ok and erased.erased_payloads == 3 and erased.signed_from == 1
    await world.database.execute(
        "UPDATE choir_control.erased_logs SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1)"
    )
    found = await verify(world, agent)
    assert not found.ok and found.broken_at == 2
