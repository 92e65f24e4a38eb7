"""An agent whose model has a context window of 8,192 tokens, counted with an offline tokenizer."""

import json
import shutil
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from choir_agent.models.tokenizer_program import load_encoding
from choir_common.wire.events import MemoryCompacted, Reply, ToolResultCommitted
from choir_common.wire.model import JsonObject
from choir_control.configuration.identity_files import write_identity_files
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.provider import Answer, Call, ErrorFault, RecordedRequest, Step
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

WINDOW = 8_192
FIRST_PROMPT = 1_500
LINES = 400


class ExactCounter:
    """Counter with the tables of a real tokenizer."""

    def __init__(self) -> None:
        self._encoding = load_encoding()

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))


class CountingOllama(FakeOllama):
    """An Ollama that reports the tokens it counted, and folds the conversation when it is asked to."""

    def __init__(self) -> None:
        super().__init__(model="small:latest", counter=ExactCounter())
        self.context_length = WINDOW
        self.folds = 0

    def take_step(self, request: RecordedRequest) -> Step:
        """Answer requests of compaction without the script."""
        if request.body.get("format") != "json":
            return super().take_step(request)
        broken = self.broken_rule(request)
        if broken is not None:
            self.refusals.append(broken)
            return ErrorFault("invalid", broken)
        self.folds += 1
        text = f"The user has asked about book.txt {self.folds} times; it is about a fox."
        return Answer(json.dumps({"mode": "overwrite", "summary_update": text}))

    def render(self, answer: Answer, request: RecordedRequest) -> JsonObject:
        """Return the answer with the true count of the prompt."""
        return {**super().render(answer, request), **self._count()}

    def render_stream(self, answer: Answer, request: RecordedRequest) -> Sequence[bytes]:
        """Return the answer's lines, the last one with the true count of the prompt."""
        *lines, last = super().render_stream(answer, request)
        return [*lines, orjson.dumps({**orjson.loads(last), **self._count()}) + b"\n"]

    def _count(self) -> JsonObject:
        return {"prompt_eval_count": self.prompt_tokens[-1] if self.prompt_tokens else 1}


@pytest.fixture
async def ollama() -> AsyncIterator[CountingOllama]:
    async with run_provider(CountingOllama()) as provider:
        yield provider


@pytest.fixture
async def control(ollama: CountingOllama, tmp_path: Path) -> AsyncIterator[ControlStandIn]:
    identity = write_identity_files(tmp_path, "main", "")
    async with run_control(ollama.endpoint) as control:
        shutil.copytree(identity, control.choir_dir, dirs_exist_ok=True)
        model = ollama.settings(model="small", secret=None)
        control.bound = {"timezone": "Europe/Berlin", "model": model}
        yield control


def tool_names(ollama: FakeOllama) -> set[str]:
    tools = ollama.requests[-1].body["tools"]
    assert isinstance(tools, list)
    return {tool["function"]["name"] for tool in tools}  # type: ignore[index,call-overload]


async def test_the_first_prompt_is_short_and_its_tools_are_few(
    ollama: CountingOllama, control: ControlStandIn
) -> None:
    async with running_agent(control):
        await control.say("hello there", sent_at=datetime.now(UTC))
        await control.replied()
    assert ollama.prompt_tokens[0] <= FIRST_PROMPT
    names = tool_names(ollama)
    assert {"choir_fs_read", "choir_fs_write", "choir_exec", "choir_memory_query"} <= names
    assert not any(name.startswith(("choir_core", "choir_propose")) for name in names)
    options = ollama.requests[-1].body["options"]
    assert isinstance(options, dict) and options["num_ctx"] == WINDOW and not ollama.refusals


async def test_a_long_conversation_with_tools_never_exceeds_the_window(
    ollama: CountingOllama, control: ControlStandIn
) -> None:
    text = "\n".join(f"line {n}: the quick brown fox jumps over a lazy dog" for n in range(LINES))
    (control.workspace / "book.txt").write_text(text)
    read = Call("choir_fs_read", {"path": "book.txt"})
    search = Call("choir_exec", {"command": "grep -c fox book.txt; head -c 3000 book.txt"})
    async with running_agent(control):
        for turn in range(12):
            ollama.script(
                Answer(calls=(read,)), Answer(calls=(search, read)), Answer(f"Turn {turn}.")
            )
            await control.say(f"Question {turn}: what is in book.txt?", f"inb_{turn}")
            await control.replied(turn + 1)
    assert not ollama.refusals, "a prompt did not fit"
    assert max(ollama.prompt_tokens) <= WINDOW
    payloads = control.payloads()
    assert sum(isinstance(it, MemoryCompacted) for it in payloads) >= 2 and ollama.folds >= 2
    results = [it for it in payloads if isinstance(it, ToolResultCommitted)]
    assert len(results) == 36 and all(it.status == "success" for it in results)
    assert [it for it in payloads if isinstance(it, Reply)][-1].text == "Turn 11."


async def test_a_turn_of_ten_steps_with_long_results_is_completed(
    ollama: CountingOllama, control: ControlStandIn
) -> None:
    text = "\n".join(f"line {n}: the quick brown fox jumps over a lazy dog" for n in range(LINES))
    (control.workspace / "book.txt").write_text(text)
    read = Call("choir_fs_read", {"path": "book.txt"})
    async with running_agent(control):
        ollama.script(*(Answer(calls=(read,)) for _ in range(10)), Answer("Read ten times."))
        await control.say("Read book.txt ten times.", sent_at=datetime.now(UTC))
        (answer,) = [reply for reply in await control.replied() if reply.answers is not None]
    assert (answer.kind, answer.text) == ("answer", "Read ten times.")
    assert not ollama.refusals, "a prompt did not fit"
    assert max(ollama.prompt_tokens) <= WINDOW
    assert "Read book.txt ten times." in str(ollama.requests[-1].body["messages"])
