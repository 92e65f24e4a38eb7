"""Heartbeats duplicated, reordered, gapped, forked and from old epochs; logs with flipped bits (R7)."""

import asyncio
import json

import asyncpg
import pytest
from hypothesis.stateful import run_state_machine_as_test

from choir_common.errors import ChoirError
from tests.service.control.agent_hand import AgentHand
from tests.service.control.heartbeat_machine import HeartbeatMachine
from tests.service.control.world import World, a_config
from tests.support.state_machines import enough_steps, machine_runs, machine_settings

TEXT_COLUMNS = ("lane", "type", "at", "hash_prev", "hash", "payload")
REV_BITS = 40


@pytest.fixture
async def patient(stopped: World) -> World:
    """A ready choird that blames nobody for silence, with no agent running."""
    config = a_config(stopped.home)
    config["agents"]["main"]["autostart"] = False
    config["crash_detection_threshold_ms"] = 600_000
    stopped.settings.config_file.write_text(json.dumps(config))
    await stopped.start()
    return stopped


@pytest.mark.parametrize("part", machine_runs())
async def test_whatever_arrives_the_log_is_one_chain_and_words_are_said_once(
    patient: World, part: int
) -> None:
    HeartbeatMachine.world, HeartbeatMachine.gone = patient, None
    HeartbeatMachine.loop = asyncio.get_running_loop()
    settings = machine_settings(12, 30, usual_length=95)
    await asyncio.to_thread(run_state_machine_as_test, HeartbeatMachine, settings=settings)


def test_the_walks_through_heartbeats_went_far_enough() -> None:
    assert enough_steps(HeartbeatMachine)


async def test_every_flipped_bit_of_a_stored_log_is_found(world: World, agent: AgentHand) -> None:
    for text in ("first", "mañana 🌒", "last"):
        await agent.reply(text, kind="notice")
    assert world.control is not None
    verifier, session = world.control.services.log.audit.verifier, agent.spec.session_id
    rev, head, flips = 3, agent.head, 0
    # by day every third, which meets each bit of a byte; every one in `make nightly`
    step = 1 if len(machine_runs()) > 1 else 3

    async def found() -> bool:
        verdict = await verifier.verify(session, head)
        # the event itself, or the one after it, which no longer follows
        return not verdict.ok and verdict.broken_at in (rev, rev + 1)

    async def put(column: str, value: object) -> bool:
        """Store a damaged value; False when Postgres itself refuses it."""
        cast = "::json" if column == "payload" else ""
        sql = (
            f"UPDATE choir_control.session_events SET {column} = $1{cast} "
            f"WHERE session_id = $2 AND {'hash = $3' if column == 'rev' else 'rev = $3'}"
        )
        key = agent.log[rev - 1].hash if column == "rev" else rev
        try:
            await world.database.execute(sql, value, session, key)
        except (asyncpg.PostgresError, ChoirError):
            return False
        return True

    for column in TEXT_COLUMNS:
        read = f"SELECT {column}::text FROM choir_control.session_events WHERE session_id = $1 AND rev = $2"
        whole = str(await world.database.fetchval(read, session, rev))
        for bit in range(0, len(whole.encode()) * 8, step):
            damaged = bytearray(whole.encode())
            damaged[bit // 8] ^= 1 << bit % 8
            try:
                text = damaged.decode()
            except UnicodeDecodeError:
                continue  # no text any more: Postgres would not give it back
            if await put(column, text):
                flips += 1
                assert await found(), (column, bit, text)
        assert await put(column, whole)
    for bit in range(REV_BITS):
        if await put("rev", rev ^ 1 << bit):
            flips += 1
            verdict = await verifier.verify(session, head)
            assert not verdict.ok, bit
            assert await put("rev", rev)
    assert (await verifier.verify(session, head)).ok
    print(f"{flips} bits flipped, all found")
    assert flips > 1_000 // step
