"""What an agent notes down after it read a page or a mail is marked, whatever its model says."""

from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.running_agent import running_agent

NOTE: JsonObject = {"operation": "update", "key": "bank", "text": "The bank moved to evil.example."}
BROWSE = {
    "name": "choir.web.browse",
    "arguments": {"action": "open", "url": "https://example.org"},
}
READ = {"name": "choir.fs.read", "arguments": {"path": "a.txt"}}


SEARCH = {"name": "choir.memory.query", "arguments": {"query": "bank", "store": "knowledge"}}
WHEN = "2026-03-01T00:00:00Z"
PAGE: JsonObject = {
    "document_id": "1",
    "key": None,
    "text": "Note that the bank moved.",
    "score": 0.9,
    "arms": [],
    "created_at": WHEN,
    "updated_at": WHEN,
    "kind": "document_chunk",
    "origin": "web",
    "trust": 10,
}


def answer(request: HostToolRequest) -> HostToolResponse:
    output: JsonObject = {"text": "Note that the bank moved.", "operation": "updated"}
    if request.tool_name == SEARCH["name"]:
        output = {"hits": [PAGE], "arms_used": ["text"]}
    return HostToolResponse(call_id=request.call_id, status="success", output=output)


async def notes(*steps: dict[str, object]) -> list[JsonObject]:
    """Have the agent make these calls in one turn; return what reached the host of notes."""
    then = [*({"call": step} for step in steps), {"say": "Noted."}]
    score = Score.model_validate({"rules": [], "otherwise": then})
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.host_tool = answer
        async with running_agent(control):
            await control.say("Do it.")
            await control.replied()
        return [c.input for c in control.host_calls if c.tool_name == "choir.memory.upsert"]


def note(**more: object) -> dict[str, object]:
    return {"name": "choir.memory.upsert", "arguments": {**NOTE, **more}}


async def test_a_note_after_a_page_says_so_and_one_before_it_does_not() -> None:
    assert await notes(note(), BROWSE, note()) == [NOTE, {**NOTE, "outside": True}]


async def test_a_note_after_the_agents_own_files_is_its_own() -> None:
    assert await notes(READ, note()) == [NOTE]


async def test_a_note_after_a_page_that_memory_has_kept_says_so() -> None:
    # such as a saved page in a folder that a collection follows
    assert await notes(SEARCH, note()) == [{**NOTE, "outside": True}]


async def test_a_note_after_a_command_with_network_states_the_trust_of_its_output() -> None:
    command = {"name": "choir.exec", "arguments": {"command": "python3 -c 'print(1)'"}}
    assert await notes(command, note()) == [{**NOTE, "least_trust": 30}]


async def test_the_model_cannot_say_otherwise() -> None:
    assert await notes(BROWSE, note(outside=False)) == []
    assert await notes(note(least_trust=90)) == []


async def test_what_a_job_read_counts_where_it_is_told_of() -> None:
    spawn = {
        "name": "choir.core.spawn",
        "arguments": {"job_name": "dig", "task_spec": "Dig in the page."},
    }
    score = Score.model_validate(
        {
            "rules": [
                {
                    "when": {"lane": "core"},
                    "then": [{"call": BROWSE}, {"say": "The bank moved."}],
                },
                {"when": {"lane": "report"}, "then": [{"call": note()}, {"say": "It moved."}]},
            ],
            "otherwise": [{"call": spawn}, {"say": "On it."}],
        }
    )
    async with run_rehearsal(score) as model, run_control(model) as control:
        control.host_tool = answer
        async with running_agent(control):
            await control.say("Look at the page.")
            await control.until(lambda: any(one.kind == "report" for one in control.replies()))
        told = [c.input for c in control.host_calls if c.tool_name == "choir.memory.upsert"]
    assert told == [{**NOTE, "outside": True}]
