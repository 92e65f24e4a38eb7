"""A person asks the agent for reminders, and changes, lists and removes them, on a real stack."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from choir_common.wire.messages import OutboundMessage
from tests.support.stack import ConsoleUser, console_user, running_stack_in_thread

WITHIN_S = 300


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": f"choir.schedule.{name}", "arguments": arguments}}


def reminds(said: str, value: str, text: str) -> dict[str, Any]:
    """Return the rule that answers a message with a new reminder."""
    create = calls("create", kind="remind", timing="in", value=value, text=text)
    return {"when": {"contains": said}, "then": [create, {"say": "I shall: {result.output.when}"}]}


DAILY = calls(
    "update",
    schedule_id=2,
    timing="cron",
    value="0 8 * * *",
    zone="Asia/Tokyo",
    text="call Ben",
)
SCORE = {
    "rules": [
        reminds("in 5 seconds", "5s", "tea is ready"),
        reminds("in two hours", "2h", "call Ann"),
        {
            "when": {"contains": "each day in Tokyo"},
            "then": [DAILY, {"say": "Changed: {result.output.text}, {result.output.when}"}],
        },
        {
            "when": {"contains": "what is planned"},
            "then": [calls("list"), {"say": "Planned: {result}"}],
        },
        {
            "when": {"contains": "forget it"},
            "then": [calls("delete", schedule_id=2), {"say": "{result}"}],
        },
    ],
    "otherwise": [{"say": "I see."}],
}


async def hears(user: ConsoleUser, text: str) -> OutboundMessage:
    """Wait for a message with exactly this text."""
    async with asyncio.timeout(WITHIN_S), user.arrived:
        while True:
            for message in user.heard:
                if message.text == text:
                    return message
            await user.arrived.wait()


async def types(user: ConsoleUser, command: str) -> str:
    """Type a command; return its answer, which comes at once."""
    body = {"text": command, "idempotency_key": os.urandom(8).hex()}
    answer = await user.client.post(f"/v1/dms/{user.dm}/messages", json=body)
    return str(answer.json()["note"])


@pytest.mark.nightly  # tests/service/control/test_schedules.py and test_schedule_tools.py have each step
async def test_a_reminder_that_a_person_asks_for_arrives_is_changed_listed_and_removed(
    tmp_path: Path,
) -> None:
    score = tmp_path / "score.json"
    score.write_bytes(orjson.dumps(SCORE))
    async with running_stack_in_thread(score) as stack:
        async with console_user(stack.endpoint) as user:
            assert (await user.asks("Remind me in 5 seconds that tea is ready")).startswith(
                "I shall"
            )
            reminder = await hears(user, "tea is ready")
            assert reminder.answers is None
            assert (await user.asks("Remind me in two hours to call Ann")).startswith("I shall")
            changed = await user.asks("Call Ben instead, each day in Tokyo")
            assert changed == "Changed: call Ben, cron 0 8 * * *, Asia/Tokyo"
            planned = await user.asks("What is planned?")
            assert "call Ben" in planned and "tea" not in planned and "Asia/Tokyo" in planned
            typed = await types(user, "/schedule")
            assert "2: remind call Ben" in typed
            listed = json.loads(
                await asyncio.to_thread(stack.run, "schedule", "list", "main", "--json")
            )
            assert [(view["schedule_id"], view["state"]) for view in listed] == [
                (1, "ended"),
                (2, "active"),
            ]
            assert [view["created_by"] for view in listed] == ["agent main"] * 2
            assert "call Ann" in listed[1]["words"] and "Call Ben" in listed[1]["words"]
            soon = await types(user, "/schedule update 2 in 2s text call Cleo")
            assert "remind call Cleo" in soon
            await hears(user, "call Cleo")
            # the user wrote its present words, so that the agent must ask
            assert "not you" in await user.asks("forget it")
            removed = await types(user, "/schedule remove 2")
            assert removed.startswith("Removed: schedule 2")
            assert "There are no schedules" in await types(user, "/schedule")
        assert [message.text for message in user.heard].count("tea is ready") == 1
