"""The effect ledger of a workspace: what `echo … >> ledger` was really run."""

from choir_common.wire.events import ToolCallCommitted
from tests.service.agent.control_stand_in import ControlStandIn


def ledger(control: ControlStandIn) -> int:
    """Return how often the effect happened."""
    place = control.workspace / "ledger"
    return len(place.read_text().splitlines()) if place.exists() else 0


def undo_what_was_not_committed(control: ControlStandIn) -> None:
    """Take the effect back where its commitment is cut off: what was not durable had not been started."""
    committed = {p.call_id for p in control.payloads() if isinstance(p, ToolCallCommitted)}
    calls = {p.call_id for p in control.payloads() if getattr(p, "tool", "") == "choir.exec"}
    if not committed & calls:
        (control.workspace / "ledger").unlink(missing_ok=True)
