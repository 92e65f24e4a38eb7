"""A session with work of each kind for the pages of the log and of costs."""

import asyncio
import json
from typing import Any

from choir_common.http.client import make_client
from choir_common.wire.model import JsonObject
from tests.support.streaming_model import StreamedCall
from tests.support.web_cockpit import Cockpit, use_tools

JOB = {"job_name": "sort-fruit", "task_spec": "Sort fruit.txt by name."}
FRUIT = {"path": "fruit.txt", "content": "apple\npear\n"}


def set_prices(config: dict[str, Any]) -> None:
    """Give the model prices and its agent a budget, so that there is money to show."""
    config["models"]["default"]["prices"] = {"input": 3_000, "output": 15_000}
    config["budgets"] = {"usd_per_day": 5_000, "usd_per_month": 9_000, "usd_per_job": 1_000}


def is_edge(call: StreamedCall) -> bool:
    """Return whether a call is of a conversation, which alone may start jobs."""
    return "choir_core_spawn" in json.dumps(call.body.get("tools", []))


async def work(cockpit: Cockpit, secret: str) -> None:
    """Let the agent fail once, start a job that writes a file, and report about it."""
    call = await cockpit.ask(f"Please sort my fruit, the token is {secret}")
    use_tools(call, ("choir_fs_read", {"path": "missing.txt"}), ("choir_core_spawn", JOB))
    edge = ["I have started a job.", "Your fruit is sorted."]
    core: list[tuple[str, JsonObject] | str] = [("choir_fs_write", FRUIT), "Sorted."]
    while edge or core:
        call = await cockpit.model.next_call()
        if is_edge(call):
            call.end(edge.pop(0))
            continue
        match core.pop(0):
            case str(text):
                call.end(text)
            case tool:
                use_tools(call, tool)
    async with asyncio.timeout(60), cockpit.user.arrived:
        while not any("fruit is sorted" in it.text for it in cockpit.user.heard):
            await cockpit.user.arrived.wait()


async def decide(cockpit: Cockpit) -> None:
    """Let the agent propose a change, and reject it."""
    call = await cockpit.ask("Remember more events")
    patch = {"patch": {"event_window": 90}, "reason": "to remember more"}
    use_tools(call, ("choir_propose_config_change", patch))
    (await cockpit.model.next_call()).end("I have asked for it.")
    async with make_client(cockpit.stack.endpoint) as client:
        async with asyncio.timeout(30):
            while not (items := (await client.get("/v1/approvals")).json()["items"]):
                await asyncio.sleep(0.1)
        answer = await client.post(f"/v1/approvals/{items[0]['approval_id']}/reject", json={})
        answer.raise_for_status()
    (await cockpit.model.next_call()).end("Then I leave it.")
    async with asyncio.timeout(60), cockpit.user.arrived:
        while not any("leave it" in it.text for it in cockpit.user.heard):
            await cockpit.user.arrived.wait()
