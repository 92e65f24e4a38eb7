"""An outage of a provider for ten minutes in the middle of a core job (docs/providers.md).

A minute passes in a tenth of a second, with the pauses between retries shortened alike. `make nightly` waits
the ten minutes, with the pauses as they are.
"""

import itertools
import os
import time
from collections.abc import Sequence

import pytest

from choir_agent.models import retry_policy
from choir_common.wire.events import ModelOutput, ToolResultCommitted
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import (
    Answer,
    Call,
    Disconnect,
    ErrorFault,
    RecordedRequest,
    Step,
)
from tests.service.agent.control_stand_in import ControlStandIn
from tests.service.agent.running_agent import running_agent
from tests.service.agent.test_model_outages import SPAWN, outcomes, phases, say, session

TEN_MINUTES_S = 600.0
OUTAGE_S = float(os.environ.get("CHOIR_TEST_OUTAGE_S", "1"))
SCALE = OUTAGE_S / TEN_MINUTES_S
STEPS_BEFORE = 2


class FailingProvider(OpenAi):
    """A provider that fails in changing ways for a while, from the request after its second answer."""

    def __init__(self, outage_s: float) -> None:
        super().__init__()
        self._outage_s = outage_s
        self._began: float | None = None
        self._faults = itertools.cycle(
            [
                # the connection breaks in the middle of the answer
                Answer(calls=(append("lost"),), abort_after=1),
                Disconnect(),
                ErrorFault("overloaded"),
                ErrorFault("server"),
                ErrorFault("rate", retry_after_s=outage_s / 100),
            ]
        )
        self.failed: list[RecordedRequest] = []
        self.down_s = 0.0
        """Seconds from the first failed request to the first one that was answered again."""

    def take_step(self, request: RecordedRequest) -> Step:
        now = time.monotonic()
        if self._began is None and len(self.answers) == STEPS_BEFORE:
            self._began = now
        if self._began is None or self.down_s:
            return super().take_step(request)
        if now - self._began < self._outage_s:
            self.failed.append(request)
            return next(self._faults)
        self.down_s = now - self._began
        return super().take_step(request)


def append(text: str) -> Call:
    """Return a call that shows a repetition, because it is not idempotent."""
    arguments = {"path": "beds.txt", "content": f"{text}\n", "mode": "append"}
    return Call("choir_fs_write", {**arguments})


def core_payloads(control: ControlStandIn) -> tuple[list[ModelOutput], list[ToolResultCommitted]]:
    """Return the job's outputs and results."""
    job = {event.rev for event in control.events if event.lane != "edge"}
    payloads = [p for e, p in zip(control.events, control.payloads(), strict=True) if e.rev in job]
    outputs = [p for p in payloads if isinstance(p, ModelOutput)]
    return outputs, [p for p in payloads if isinstance(p, ToolResultCommitted)]


def sent_by(requests: Sequence[RecordedRequest]) -> set[bytes]:
    return {request.raw for request in requests}


async def test_an_outage_of_ten_minutes_in_a_core_job_loses_and_repeats_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry_policy, "MAX_PAUSE_S", retry_policy.MAX_PAUSE_S * SCALE)
    edge, core = OpenAi(), FailingProvider(OUTAGE_S)
    edge.script(Answer(calls=(SPAWN,)), Answer("Started."), Answer("It waits for its model."))
    core.script(*(Answer(calls=(append(bed),)) for bed in ("roses", "beans", "mint")))
    core.default = Answer("There are three beds.")
    async with session(edge, core=core) as control:
        control.rate_limit_retry_ms = max(1, round(1_000 * SCALE))
        async with running_agent(control):
            await say(control, 1)
            await control.until(lambda: "waiting for the model" in phases(control), OUTAGE_S + 60)
            assert outcomes(control) == []
            # the conversation goes on meanwhile
            assert await say(control, 2, "how is it going?") == "It waits for its model."
            await control.until(lambda: outcomes(control) == ["completed"], 2 * OUTAGE_S + 60)
            await control.until(lambda: any(r.kind == "report" for r in control.replies()))
        written = (control.workspace / "beds.txt").read_text()
    outputs, results = core_payloads(control)
    assert core.down_s >= OUTAGE_S and len(core.failed) >= 5
    print(f"down for {core.down_s:.1f} s, {len(core.failed)} failed calls")
    # each step was taken once, and nothing was begun that the cut answer had proposed
    assert written == "roses\nbeans\nmint\n"
    assert [result.status for result in results] == ["success"] * 3
    calls = [call.call_id for output in outputs for call in output.tool_calls]
    assert [result.call_id for result in results] == calls and len(outputs) == 4
    # the call after the outage is the one before it, with the results of both steps
    answered = core.requests[STEPS_BEFORE]
    assert sent_by(core.failed) == {answered.raw}
    assert answered.raw.count(b"beds.txt changed") + answered.raw.count(b"beds.txt created") == 2
    assert phases(control) == ["waiting for the model", "the model answers again"]
    assert core.refusals == []
