"""Requests of ACP agents as calls, the answers to them, and what is known of their cost."""

import json
import re
from decimal import Decimal
from pathlib import Path

import orjson
import pytest
from pydantic import JsonValue, ValidationError

from choir_agent.budgets.money import UNLIMITED
from choir_agent.harnesses.acp_messages import tokens, usd
from choir_agent.harnesses.acp_requests import (
    InvalidRequest,
    command_call,
    command_output,
    file_text,
    permission_outcome,
    read_call,
)
from choir_agent.harnesses.jsonl_session import JsonLinesSession
from choir_agent.harnesses.spending import HarnessSpending
from choir_agent.harnesses.updates import (
    Asked,
    HarnessUsage,
    PlanReport,
    Said,
    Step,
    TurnOutcome,
    UsageCounter,
)
from choir_common.wire.config import Budgets
from choir_common.wire.events import ModelOutput, ToolResultCommitted, ToolStatus
from choir_common.wire.harness_config import HarnessConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import PolicyRule


def result(output: JsonObject, status: str = "success", **more: object) -> ToolResultCommitted:
    fields = {"turn_id": "t", "call_id": "c", "tool": "x", "status": status, "output": output}
    return ToolResultCommitted.model_validate({**fields, **more})


def test_a_part_of_a_file_never_passes_as_the_whole() -> None:
    assert file_text(result({"text": "all"})) == "all"
    assert file_text(result({"text": "cut", "truncated": True})) is None
    assert file_text(result({"text": "cut"}, artifact_ref=".choirtmp/artifacts/1.json")) is None
    assert file_text(result({"base64": "AA=="})) is None
    call = read_call({"path": "/ws/a", "line": 3, "limit": 2})
    assert call.arguments == {"path": "/ws/a", "start_line": 3, "end_line": 4}


@pytest.mark.parametrize("offers", [["allow_always"], ["allow_always", "reject_always"], []])
def test_a_yes_is_never_more_than_once(offers: list[str]) -> None:
    options = [{"optionId": kind, "kind": kind, "name": "Yes"} for kind in offers]
    answer = permission_outcome({"options": [*options]}, "success")
    assert answer == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("success", "yes"), ("refused", "no"), ("error", "no"), ("interrupted", None)],
)
def test_a_permission_of_a_cancelled_turn_is_neither_yes_nor_no(
    status: ToolStatus, outcome: str | None
) -> None:
    options = [{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]
    answer = permission_outcome({"options": [*options]}, status)["outcome"]
    assert isinstance(answer, dict)
    assert answer["outcome"] == ("selected" if outcome else "cancelled")
    assert answer.get("optionId") == outcome


def test_a_command_cannot_leave_its_words_and_has_no_network() -> None:
    call = command_call(
        {
            "command": "echo",
            "args": ["$(id); rm -rf ~"],
            "env": [{"name": "A", "value": "'; id; '"}],
            "cwd": "/ws/a b",
        }
    )
    assert call.arguments["command"] == (
        "cd '/ws/a b' && { export A=''\"'\"'; id; '\"'\"''; echo '$(id); rm -rf ~'\n}"
    )
    assert call.arguments["network"] is False
    for name in ("A=1; id", "", "1A"):
        with pytest.raises(InvalidRequest):
            command_call({"command": "echo", "env": [{"name": name, "value": "x"}]})
    ended = result({"exit_code": 1, "stdout": "abc", "stderr": "def"})
    assert command_output(ended, 4) == {
        "output": "cdef",
        "truncated": True,
        "exitStatus": {"exitCode": 1, "signal": None},
    }


def test_usage_is_counted_once_and_silence_is_no_zero() -> None:
    counter = UsageCounter()
    assert counter.take() == HarnessUsage()
    counter.note(HarnessUsage(cost_usd=Decimal("0.5")))
    counter.note(HarnessUsage(input_tokens=100, output_tokens=10))
    counter.note(HarnessUsage(cost_usd=Decimal("0.1")))  # it cannot take back what it cost
    used = counter.take()
    assert (used.input_tokens, used.output_tokens, used.cost_usd) == (100, 10, Decimal("0.5"))
    assert counter.take() == HarnessUsage()
    counter.note(HarnessUsage(input_tokens=150, output_tokens=30, cost_usd=Decimal("0.75")))
    used = counter.take()
    assert (used.input_tokens, used.output_tokens, used.cost_usd) == (50, 20, Decimal("0.25"))


async def test_a_continued_session_is_not_counted_again() -> None:
    def tokens(output: ModelOutput) -> tuple[int | None, int | None]:
        return output.prompt_tokens, output.completion_tokens

    async def settle(spending: HarnessSpending) -> ModelOutput:
        return await spending.settle(
            lambda: ModelOutput(
                turn_id="j", text="", model="harness:x", finish_reason="", read_rev=1
            )
        )

    def spending_after(recorded: JsonValue) -> HarnessSpending:
        config = HarnessConfig(command=("x",), agents=("main",))
        spending = HarnessSpending("x", config, job_id="j", money=UNLIMITED)
        spending.resume(recorded)
        return spending

    first = spending_after(None)
    first.note(HarnessUsage(input_tokens=100, output_tokens=10, cost_usd=Decimal("0.5")), Budgets())
    assert tokens(await settle(first)) == (100, 10)
    recorded = orjson.loads(orjson.dumps(first.recorded))
    # it counts since the start of the session, or since it continued it
    for report, expected in (
        ((130, 15, "0.75"), (30, 5, "0.25")),
        ((40, 4, "0.2"), (40, 4, "0.2")),
    ):
        again = spending_after(recorded)
        usage = HarnessUsage(report[0], report[1], cost_usd=Decimal(report[2]))
        again.note(usage, Budgets())
        output = await settle(again)
        assert tokens(output) == expected[:2]
        assert output.usage is not None and output.usage.billed_usd == Decimal(expected[2])


def test_numbers_that_cannot_be_are_no_numbers() -> None:
    assert [usd(value) for value in (float("inf"), -1, True, "1", 10**9)] == [None] * 5
    assert usd(0.25) == Decimal("0.25")
    assert [tokens(value) for value in (-5, True, "7", 10**30)] == [0, 0, 0, 10**12]


def test_a_harness_cannot_set_what_choir_sets() -> None:
    for fields in ({"environment": {"path": "/evil"}}, {"secrets": {"LD_PRELOAD": "key"}}):
        with pytest.raises(ValidationError):
            HarnessConfig.model_validate({"command": ("x",), "agents": ("main",), **fields})


class Lines:
    """A program that writes these messages."""

    def __init__(self, messages: list[JsonObject]) -> None:
        self.messages = messages

    async def read(self) -> JsonObject:
        return self.messages.pop(0)

    async def send(self, message: JsonObject) -> None:
        pass


async def test_the_examples_of_the_page_are_what_choir_accepts() -> None:
    page = (Path(__file__).parents[3] / "docs" / "harnesses.md").read_text()
    blocks = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    for config in json.loads(f"{{{blocks[0]}}}")["harnesses"].values():
        HarnessConfig.model_validate_json(json.dumps(config))
    for line in blocks[1].splitlines():
        PolicyRule.model_validate_json(line)
    table = page[page.index("| line of the program") :]
    lines = [json.loads(line) for line in re.findall(r"^\| `(\{.*?\})` \|", table, re.MULTILINE)]
    session = JsonLinesSession(Lines(lines), "/ws")  # type: ignore[arg-type]
    await session.prompt("go")
    kinds = [type(await session.next_update()) for _ in [*lines]]
    assert kinds == [Said, Step, PlanReport, Asked, HarnessUsage, TurnOutcome]
