"""The test call of a model, for operators: one small request, in a program of its own.

It is charged to no agent, and held to the budgets of all agents together. A model is tested once at a time,
so that repeated requests cannot spend much money.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence

import structlog
from pydantic import ValidationError

from choir_common.confinement.paths import CERTIFICATES
from choir_common.errors import Conflict, NotFound, RateLimited
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.redactor import Redactor
from choir_common.wire.config import ModelConfig
from choir_common.wire.model_check import ModelCheckRequest, ModelCheckResult, ModelTestResult
from choir_common.wire.money import ReserveMoney, UsageReports
from choir_control.configuration.current import ConfigService
from choir_control.configuration.secrets.store import SecretStore
from choir_control.money.budgets import MoneyBudgetService, Spender
from choir_control.money.costs import CostService

log = structlog.get_logger("choir.models")

PROGRAM = (sys.executable, "-I", "-m", "choir_models.check_program")
INHERITED = ("LANG", "TZ", *CERTIFICATES)
DEADLINE_S = 150.0
"""Time for a server to load a model, and for its answer."""
MAX_RUNNING = 3
"""Each test is a process with a provider's SDK."""
PROMPT_TOKENS = 1_000
"""Upper estimate of the prompt and its tool."""
COMPLETION_TOKENS = 4_000
"""The longest completion that is reserved: a word, and before it the thoughts of a model that thinks."""
LEAST_COMPLETION_TOKENS = 1_000
HOLD_MARGIN_S = 60.0
_OPERATOR = Spender(None, None, None, None, is_direct=True)


class ModelCheckProgram:
    """Starts the program that makes the call; it gets one key, and nothing of control's environment."""

    def __init__(self, command: Sequence[str] = PROGRAM, deadline_s: float = DEADLINE_S) -> None:
        self._command = tuple(command)
        self._deadline_s = deadline_s

    async def run(self, request: ModelCheckRequest) -> ModelCheckResult | None:
        """Return the program's result; None if it ended without one, or not in time."""
        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={"LANG": "C.UTF-8", **environment},
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._deadline_s):
                output, _ = await process.communicate(request.model_dump_json().encode())
            return ModelCheckResult.model_validate_json(output)
        except (TimeoutError, ValidationError):
            return None
        finally:
            await _end(process)


async def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.shield(process.wait())


class ModelTestService:
    """Test calls of the configured language models."""

    def __init__(
        self,
        *,
        configuration: ConfigService,
        secrets: SecretStore,
        budgets: MoneyBudgetService,
        costs: CostService,
        redactor: Redactor,
        program: ModelCheckProgram | None = None,
    ) -> None:
        self._configuration = configuration
        self._secrets = secrets
        self._budgets = budgets
        self._costs = costs
        self._redactor = redactor
        self._program = program or ModelCheckProgram()
        self._running: set[str] = set()

    async def test(self, name: str) -> ModelTestResult:
        """Call a model once, and say whether agents can work with it.

        Raises NotFound, Conflict while it is being tested, and RateLimited while too many others are.
        """
        models = self._configuration.current.config.models
        model = models.get(name)
        if model is None:
            names = ", ".join(sorted(models)) or _("none")
            raise NotFound(
                _(
                    "There is no language model {name!r} in the active configuration, which has: {names}. A"
                    " new one is active after `choirctl config load` and `choirctl config apply`."
                ).format(name=name[:80], names=names)
            )
        if name in self._running:
            raise Conflict(_("A test of {name} is running. Wait for its result.").format(name=name))
        if len(self._running) >= MAX_RUNNING:
            raise RateLimited(
                _("{max_running} models are being tested. Try again in a moment.").format(
                    max_running=MAX_RUNNING
                )
            )
        self._running.add(name)
        try:
            result = await self._check(name, model)
        finally:
            self._running.discard(name)
        log.info("model tested", name=name, outcome=result.outcome, duration_ms=result.duration_ms)
        return ModelTestResult(
            name=name,
            outcome=result.outcome,
            detail=self._redactor.redact(result.detail),
            answered=result.answered,
            duration_ms=result.duration_ms,
            model=self._redactor.redact(result.model),
        )

    async def _check(self, name: str, model: ModelConfig) -> ModelCheckResult:
        thoughts = model.thinking_budget or 0
        call = ReserveMoney(
            name=name,
            prompt_tokens=PROMPT_TOKENS,
            completion_tokens=COMPLETION_TOKENS + thoughts,
            least_completion_tokens=LEAST_COMPLETION_TOKENS + thoughts,
            hold_s=DEADLINE_S + HOLD_MARGIN_S,
        )
        reserved = await self._budgets.reserve(_OPERATOR, new_id("use"), call)
        if reserved.budget is not None:
            return ModelCheckResult(outcome="fail", detail=reserved.text)
        request = ModelCheckRequest(
            name=name,
            model=model,
            key=self._secrets.get(model.secret) if model.secret else None,
            longest_output=reserved.completion_tokens,
            reservation=reserved.reservation,
        )
        result = await self._program.run(request)
        if result is None:
            # what it may have cost stays reserved, and is charged when the reservation expires
            detail = _(
                "{model} at {endpoint}: the test did not end within {deadline_s:g} s."
            ).format(model=model.model, endpoint=model.endpoint, deadline_s=DEADLINE_S)
            return ModelCheckResult(outcome="fail", detail=detail)
        if result.usage is not None:
            await self._costs.record(UsageReports(reports=(result.usage,)))
        elif reserved.reservation:
            await self._budgets.release(_OPERATOR, reserved.reservation)
        return result
