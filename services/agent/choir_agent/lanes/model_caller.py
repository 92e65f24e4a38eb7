"""One model call of a lane, including the wait for a rate limit, compaction and rewritten history.

The history format that each model accepts is learned from refused requests. It is not stored: after a restart
a refusal costs one more request.
"""

import asyncio
from typing import Protocol

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.limits import TokenBudgetExceeded, exhausted_event
from choir_agent.lanes.picture_describer import PictureDescriber
from choir_agent.log.session_state import JobState, TurnState
from choir_agent.models.failure_messages import OutageTracker, failure_reply
from choir_agent.models.lane_models import model_for_lane, model_name_for_lane
from choir_agent.models.model_wrappers import MeteredModel
from choir_agent.prompt.history_format import HistoryFormat
from choir_agent.settings import CurrentSettings, SettingsSource
from choir_agent.tools.registry import ToolRegistry
from choir_common.errors import RateLimited
from choir_common.ids import new_id
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import ModelOutput, ProviderFields, Reply, ToolCall
from choir_models.abilities import sees_pictures
from choir_models.model import (
    Completion,
    ContextOverflow,
    ModelFailed,
    ModelRequestRejected,
    Prompt,
    model_id,
)
from choir_models.provider_fields import has_fields

log = structlog.get_logger("choir.agent.think")

MAX_RATE_LIMIT_WAIT_S = 120.0
MAX_COMPACTIONS = 3
"""Maximum number of compactions. Each folds about half of a lane's turns; if the prompt is still too
long after that, a single message is."""


class HistoryFormatCache:
    """History format by model, as learned from refused requests."""

    def __init__(self) -> None:
        self._formats: dict[str, HistoryFormat] = {}

    def of(self, model: ModelConfig) -> HistoryFormat:
        """Return the format for a model: with provider fields unless the model has refused them."""
        origin = model_id(model)
        return self._formats.get(origin) or HistoryFormat(
            origin, shows_pictures=sees_pictures(model)
        )

    def learn(self, history: HistoryFormat) -> None:
        """Use this format from now on: the model accepted it."""
        self._formats[history.origin] = history


class PromptSource(Protocol):
    """Builder of the prompt for a turn or a core job."""

    def prompt_for(self, work: TurnState | JobState, history: HistoryFormat) -> Prompt: ...


class WindowShrinker(Protocol):
    """Compaction of a lane whose prompt is too long."""

    async def shrink(self, lane: str) -> bool:
        """Make the lane's prompts shorter now; return whether they are."""


class ModelCaller:
    """Model calls of all lanes."""

    def __init__(
        self,
        *,
        arbiter: Arbiter,
        model: MeteredModel,
        prompts: PromptSource,
        tools: ToolRegistry,
        settings: SettingsSource,
        shrinker: WindowShrinker,
        outages: OutageTracker,
        describer: PictureDescriber,
    ) -> None:
        self._arbiter = arbiter
        self._describer = describer
        self._model = model
        self._prompts = prompts
        self._tools = tools
        self._settings = settings
        self._shrinker = shrinker
        self._outages = outages
        self._histories = HistoryFormatCache()

    async def think(self, work: TurnState | JobState) -> None:
        """Call the model and record its output.

        Waits once for a rate limit, and compacts a prompt that is too long a few times; any other failure
        is final. Raises ModelFailed or TokenBudgetExceeded; their messages are meant for the user.
        """
        try:
            await self._think(work)
        except ModelFailed as error:
            settings = self._settings.current().settings
            name = model_name_for_lane(settings, work.lane)
            self._outages.record_failure(error, name, model_for_lane(settings, work.lane))
            raise
        self._outages.record_success(
            model_name_for_lane(self._settings.current().settings, work.lane)
        )

    async def _think(self, work: TurnState | JobState) -> None:
        waited, shrinks = False, 0
        while True:
            try:
                return await self._ask(work)
            except RateLimited as error:
                # The second rate limit is final, so that the user gets a reply.
                if waited:
                    text = f"{error.message}, also after waiting"
                    raise ModelFailed(text, cause="rate") from error
                waited = True
                await self._wait(work, error)
            except ContextOverflow as error:
                log.info("the prompt is too long", lane=work.lane, error=error.message)
                if shrinks == MAX_COMPACTIONS or not await self._shrinker.shrink(work.lane):
                    raise
                shrinks += 1
            except TokenBudgetExceeded as error:
                self._record_exhausted(work, error)
                raise

    def explain(self, error: ModelFailed, lane: str) -> str:
        """Return a message for the user about a failure of a lane's model."""
        settings = self._settings.current().settings
        name = model_name_for_lane(settings, lane)
        return failure_reply(error, name, model_for_lane(settings, lane))

    async def _ask(self, work: TurnState | JobState) -> None:
        """Send the request; if the provider refuses it, try other formats of the history."""
        now = self._settings.current()
        usual = self._histories.of(model_for_lane(now.settings, work.lane))
        if not usual.shows_pictures:
            await self._describer.describe(work)
        first_prompt = self._prompts.prompt_for(work, usual)
        try:
            return await self._send(work, now, first_prompt, usual.origin)
        except ModelRequestRejected as error:
            refusal = error
        attempts = [first_prompt.messages]
        for history in usual.alternatives(refusal.message, self._arbiter.state.rev):
            prompt = self._prompts.prompt_for(work, history)
            # This format changes nothing in this history.
            if prompt.messages in attempts:
                continue
            log.info("a request was refused; asking again with the history rewritten",
                     lane=work.lane, error=refusal.message, with_fields=history.with_fields,
                     plain_through=history.plain_through)  # fmt: skip
            try:
                await self._send(work, now, prompt, history.origin)
            except ModelRequestRejected:
                attempts.append(prompt.messages)
                continue
            return self._histories.learn(history)
        raise refusal

    async def _send(
        self, work: TurnState | JobState, now: CurrentSettings, prompt: Prompt, origin: str
    ) -> None:
        # No await between the prompt and this line: it is the revision that the prompt was made at.
        read_rev = self._arbiter.state.rev
        model = model_for_lane(now.settings, work.lane)
        key = now.secret(model.secret)
        async with self._model.complete(model, key, prompt, work.lane) as completion:
            # Inside the context, so that the reservation ends when the usage is charged.
            self._record(work, completion, read_rev, origin)

    async def _wait(self, work: TurnState | JobState, error: RateLimited) -> None:
        wait_s = error.retry_after_s
        if wait_s is None:
            wait_s = self._settings.current().settings.rate_limit_retry_ms / 1000
        if wait_s > MAX_RATE_LIMIT_WAIT_S:
            text = f"{error.message} and requests a wait of {wait_s:.0f} s"
            raise ModelFailed(text, cause="rate") from error
        log.info("rate limited; waiting", lane=work.lane, wait_s=wait_s)
        # Read the current state: another wait of the same work may have sent the notice already.
        if not (self._arbiter.state.find_work(work.turn_id) or work).noticed:
            text = (
                "The model provider limits my request rate; I will try again in "
                f"{max(1, round(wait_s))} s."
            )
            notice = Reply(turn_id=work.turn_id, dm=work.dm, text=text, kind="notice")
            self._arbiter.commit(work.lane, notice)
        await asyncio.sleep(wait_s)

    def _record_exhausted(self, work: TurnState | JobState, error: TokenBudgetExceeded) -> None:
        """Record once that the budget is exhausted; the lane's closing reply asks the user for more."""
        budgets = self._settings.current().settings.budgets
        event = exhausted_event(error.budget, self._arbiter.state, budgets, work.dm)
        if event is not None:
            self._arbiter.commit(work.lane, event)

    def _record(
        self, work: TurnState | JobState, completion: Completion, read_rev: int, origin: str
    ) -> None:
        calls = tuple(
            ToolCall(
                # Providers repeat their ids, and a call_id is an idempotency key: make our own.
                call_id=new_id("call"),
                tool=self._tools.canonical(call.name) or call.name,
                arguments=call.arguments,
            )
            for call in completion.calls
        )
        output = ModelOutput(
            turn_id=work.turn_id,
            text=completion.text,
            tool_calls=calls,
            model=completion.model,
            finish_reason=completion.finish_reason,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
            duration_ms=completion.duration_ms,
            read_rev=read_rev,
            provider_fields=_provider_fields(completion, origin),
        )
        # The next event follows at once (a tool request or the reply): send both in one heartbeat.
        self._arbiter.commit(work.lane, output, more_follows=True)


def _provider_fields(completion: Completion, origin: str) -> ProviderFields | None:
    calls = tuple(call.fields for call in completion.calls)
    if not has_fields(completion.fields, calls):
        return None
    return ProviderFields(origin=origin, message=completion.fields, calls=calls)
