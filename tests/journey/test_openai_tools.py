"""The official OpenAI SDK runs its own tools for an agent of a whole system."""

import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.shell import ChoirctlRunner
from tests.support.stack import running_stack

pytestmark = pytest.mark.nightly
CALL = {"name": "weather", "arguments": {"city": "Rome"}}
RULE = {
    "when": {"lane": "edge", "contains": "weather"},
    "then": [
        {"call": {"name": "choir.client.tools", "arguments": {}}},
        {"call": {"name": "choir.client.call", "arguments": CALL}},
        {"say": "It is warm."},
    ],
}
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
BOUND_WITHIN_S = 60.0


def ask(client: openai.OpenAI, messages: Any) -> Any:
    """Return the choice of an answer; the conversation of a new client takes a moment."""
    deadline = time.monotonic() + BOUND_WITHIN_S
    while True:
        try:
            answer = client.chat.completions.create(model="main", messages=messages, tools=[TOOL])
        except openai.APIStatusError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return answer.choices[0]


def test_the_sdk_runs_its_tools_for_a_real_agent(tmp_path: Path) -> None:
    score = tmp_path / "score.json"
    score.write_text(json.dumps({"rules": [RULE], "otherwise": [{"say": "noted"}]}))
    with running_stack(score) as stack:
        shell = ChoirctlRunner(stack.home)
        # the scope also counts if the client gets it later
        shell.data("client", "add", "coder", "--scope", "chat")
        added = shell.data("client", "add", "coder", "--scope", "chat", "--scope", "tools")
        url, token = added["base_url"], added["token"]
        with openai.OpenAI(base_url=url, api_key=token, timeout=120) as client:
            messages: Any = [{"role": "user", "content": "How is the weather?"}]
            choice = ask(client, messages)
            assert choice.finish_reason == "tool_calls"
            [call] = choice.message.tool_calls
            assert (call.function.name, json.loads(call.function.arguments)) == (
                "weather",
                {"city": "Rome"},
            )
            result = {"role": "tool", "tool_call_id": call.id, "content": "25 degrees"}
            said = choice.message.model_dump(exclude_none=True)
            done = ask(client, [*messages, said, result])
    assert (done.finish_reason, done.message.content) == ("stop", "It is warm.")
