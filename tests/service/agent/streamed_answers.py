"""What the tests of streamed answers share: waiting for a draft, and the outputs of the model."""

from choir_common.wire.events import ModelOutput
from tests.service.agent.control_stand_in import ControlStandIn

CANARY = "sk-canary-0123456789"


async def seen(control: ControlStandIn, text: str) -> None:
    """Wait until the newest draft is this text."""
    await control.until(lambda: bool(control.drafts) and control.drafts[-1].text == text)


def outputs(control: ControlStandIn) -> list[ModelOutput]:
    """Return the outputs that are in the log."""
    return [p for p in control.payloads() if isinstance(p, ModelOutput)]


def wire(call: dict[str, object]) -> dict[str, object]:
    """Return a tool call as a server streams it."""
    name = str(call["name"]).replace(".", "_")
    arguments = str(call["arguments"]).replace("'", '"')
    return {"index": 0, "id": "c", "function": {"name": name, "arguments": arguments}}
