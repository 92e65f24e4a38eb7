"""One model call of a lane, including retries, fallback models, compaction and rewritten history.

The history format that each model accepts is learned from refused requests. It is not stored: after a restart
a refusal costs one more request.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.lanes.draft_reporter import DraftReporter
from choir_agent.lanes.model_notices import ModelNotices
from choir_agent.lanes.picture_describer import PictureDescriber
from choir_agent.log.session_state import JobState, TurnState
from choir_agent.models.failure_messages import (
    OutageTracker,
    describe_failure,
    failure_reply,
)
from choir_agent.models.lane_models import (
    model_for_lane,
    model_name_for_lane,
    models_for_lane,
    wake_up_models,
)
from choir_agent.models.model_wrappers import CallPurpose, MeteredCompletion, MeteredModel
from choir_agent.models.picture_model import max_pdf_pages
from choir_agent.models.retry_policy import (
    QUICK_RETRY_WAIT_S,
    RetrySchedule,
    is_passing,
)
from choir_agent.prompt.history_format import HistoryFormat, holds_later
from choir_agent.prompt.prompt_notes import LanePrompt
from choir_agent.settings import SettingsSource
from choir_agent.tools.registry import ToolRegistry
from choir_common.errors import RateLimited
from choir_common.ids import new_id
from choir_common.lanes import is_edge
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import ModelOutput, PromptNote, ProviderFields, ToolCall
from choir_common.wire.model_config import InputKind
from choir_models.abilities import sees_pictures
from choir_models.fallback import ABOUT_THE_PROMPT, CoolDowns, NamedModel, rate_failure
from choir_models.model import (
    Completion,
    ContextOverflow,
    ModelFailed,
    ModelRequestRejected,
    model_id,
)
from choir_models.provider_fields import has_fields

log = structlog.get_logger("choir.agent.think")

MAX_COMPACTIONS = 3
"""Maximum number of compactions. Each folds about half of a lane's turns; if the prompt is still too
long after that, a single message is."""


INTERRUPTED = "interrupted"
"""Finish reason of an output that the user stopped."""


class HistoryFormatCache:
    """History format by model, as learned from refused requests."""

    def __init__(self) -> None:
        self._formats: dict[tuple[str, tuple[InputKind, ...] | None], HistoryFormat] = {}
        """By model and its setting `input`: a corrected setting is tried again."""

    def of(self, model: ModelConfig) -> HistoryFormat:
        """Return the format for a model: with provider fields unless the model has refused them."""
        origin = model_id(model)
        return self._formats.get((origin, model.input)) or HistoryFormat(
            origin, shows_pictures=sees_pictures(model), pdf_pages=max_pdf_pages(model)
        )

    def learn(self, model: ModelConfig, history: HistoryFormat) -> None:
        """Use this format from now on: the model accepted it."""
        self._formats[history.origin, model.input] = history


class PromptSource(Protocol):
    """Builder of the prompt for a turn or a core job."""

    def prompt_for(self, work: TurnState | JobState, history: HistoryFormat) -> LanePrompt: ...


class WindowShrinker(Protocol):
    """Compaction of a lane whose prompt is too long."""

    async def shrink(self, lane: str) -> bool:
        """Make the lane's prompts shorter now; return whether they are."""


@dataclass(frozen=True, slots=True)
class _RunningCall:
    """The model call of an edge lane that runs now."""

    turn_id: str
    model: NamedModel
    prompt: LanePrompt
    read_rev: int
    began: float


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
        drafts: DraftReporter,
        cool_downs: CoolDowns,
    ) -> None:
        self._arbiter = arbiter
        self._describer = describer
        self._model = model
        self._prompts = prompts
        self._tools = tools
        self._settings = settings
        self._shrinker = shrinker
        self._outages = outages
        self._drafts = drafts
        self._cool_downs = cool_downs
        self._notices = ModelNotices(arbiter)
        self._histories = HistoryFormatCache()
        self._running: dict[str, _RunningCall] = {}
        """The running call of each edge lane."""
        self._failed_keys: dict[str, str | None] = {}
        """The keys with which models failed last, by the models' names."""

    async def think(self, work: TurnState | JobState) -> None:
        """Call the lane's model, or the one that it falls back to, and record the output.

        Repeats a failed call as `retry_policy` says, and compacts a prompt that is too long a few times.
        Raises ModelFailed or BudgetExceeded; their messages are meant for the user.
        """
        schedule = RetrySchedule(self._settings.current().settings, work.lane)
        while (failures := await self._try_models(work)) is not None:
            # One model that may answer soon is enough to wait for.
            error = next((error for _, error in failures if is_passing(error)), failures[0][1])
            pause_s = schedule.next_pause_s(error)
            if pause_s is None:
                raise _final_failure(failures, schedule) from error
            if schedule.is_outage:
                outage = _final_failure(failures, schedule)
                self._notices.tell_of_outage(work, self.describe(outage, work.lane))
            await self._wait(work, error, pause_s)

    async def _try_models(
        self, work: TurnState | JobState
    ) -> Sequence[tuple[NamedModel, ModelFailed]] | None:
        """Call the lane's models until one answers; return all failures, in the lane's order, if none
        does."""
        models = self._models_of(work)
        self._end_cool_downs_of_new_keys(models)
        failures: dict[str, tuple[NamedModel, ModelFailed]] = {}
        for model in self._cool_downs.order(models):
            try:
                await self._try_model(work, model, has_others=len(models) > 1)
            except ModelFailed as error:
                self._outages.record_failure(error, model.name, model.config)
                if error.cause in ABOUT_THE_PROMPT:
                    raise
                self._cool_downs.record_failure(model, error)
                self._failed_keys[model.name] = self._key(model)
                failures[model.name] = (model, error)
                continue
            self._outages.record_success(model.name)
            self._cool_downs.record_success(model)
            self._failed_keys.pop(model.name, None)
            _, failure = failures.get(models[0].name, (None, None))
            self._notices.tell_of_answer(work, first=models[0], used=model, failure=failure)
            return None
        return [failures[model.name] for model in models]

    def _models_of(self, work: TurnState | JobState) -> tuple[NamedModel, ...]:
        """Return the models of a turn or job in the order in which they are tried."""
        settings = self._settings.current().settings
        is_quiet = isinstance(work, TurnState) and work.quiet
        return (wake_up_models(settings) if is_quiet else ()) or models_for_lane(
            settings, work.lane
        )

    def _end_cool_downs_of_new_keys(self, models: Sequence[NamedModel]) -> None:
        """Use the models again at once whose key was replaced since they failed."""
        for model in models:
            key = self._key(model)
            if self._failed_keys.get(model.name, key) != key:
                self._cool_downs.record_success(model)
                del self._failed_keys[model.name]

    def _key(self, model: NamedModel) -> str | None:
        return self._settings.current().secret(model.config.secret)

    async def _try_model(
        self, work: TurnState | JobState, model: NamedModel, *, has_others: bool
    ) -> None:
        """Call one model; repeat a short failure once if the lane would otherwise change its model."""
        try:
            await self._call(work, model)
        except ModelFailed as error:
            now = self._settings.current().settings
            pause_s = max(now.rate_limit_retry_ms / 1000, error.retry_after_s or 0.0)
            is_quick = is_passing(error) and pause_s <= QUICK_RETRY_WAIT_S
            if not (has_others and is_quick and now.features.model_retries):
                raise
            await asyncio.sleep(pause_s)
            await self._call(work, model)

    async def _call(self, work: TurnState | JobState, model: NamedModel) -> None:
        """Call one model once; compact the lane if the prompt is too long."""
        shrinks = 0
        while True:
            try:
                return await self._ask(work, model)
            except RateLimited as error:
                raise rate_failure(error) from error
            except ContextOverflow as error:
                log.info("the prompt is too long", lane=work.lane, error=error.message)
                if shrinks == MAX_COMPACTIONS or not await self._shrinker.shrink(work.lane):
                    raise
                shrinks += 1
            except BudgetExceeded as error:
                self._record_exhausted(work, error)
                raise

    def record_interrupted(self, lane: str, note: str) -> bool:
        """Record what the user has seen of an edge lane's running call, with a note; return whether
        anything was seen.

        The caller cancels the call at once, which closes the connection to the provider.
        """
        call, text = self._running.get(lane), self._drafts.of(lane).shown_text
        if call is None or not text.strip() or self._arbiter.is_suspending:
            return False
        return self._record_stopped(lane, call, f"{text.rstrip()}\n\n{note}")

    def record_unwritten(self, lane: str, note: str, after_s: float) -> bool:
        """Record a note as the output of an edge lane's running call, if it has run for a time and written
        no text; return whether it was recorded.

        The caller cancels the call at once, as above.
        """
        call = self._running.get(lane)
        if call is None or self._drafts.of(lane).has_text or self._arbiter.is_suspending:
            return False
        if time.monotonic() - call.began < after_s:
            return False
        return self._record_stopped(lane, call, note)

    def _record_stopped(self, lane: str, call: _RunningCall, text: str) -> bool:
        spent = self._model.take_interrupted(lane)
        if spent is None:
            return False
        output = ModelOutput(
            turn_id=call.turn_id,
            text=text,
            model=call.model.config.model,
            finish_reason=INTERRUPTED,
            prompt_tokens=spent.prompt_tokens,
            completion_tokens=spent.completion_tokens,
            duration_ms=round((time.monotonic() - call.began) * 1000, 3),
            read_rev=call.read_rev,
            # With the reservation, which would otherwise be charged as well.
            usage=spent.usage,
            notes=call.prompt.notes,
        )
        self._running.pop(lane, None)
        self._arbiter.commit(lane, output, more_follows=True)
        return True

    def explain(self, error: ModelFailed, lane: str) -> str:
        """Return a message for the user about a failure of a lane's model."""
        settings = self._settings.current().settings
        name = model_name_for_lane(settings, lane)
        return failure_reply(error, name, model_for_lane(settings, lane))

    def outage(self, lane: str) -> str:
        """Return why a lane's model does not answer now; empty if its last call succeeded."""
        failure = self._outages.of(model_name_for_lane(self._settings.current().settings, lane))
        return failure.words if failure else ""

    def describe(self, error: ModelFailed, lane: str) -> str:
        """Return which model of a lane failed, why, and how to fix it."""
        settings = self._settings.current().settings
        name = model_name_for_lane(settings, lane)
        return describe_failure(error, name, model_for_lane(settings, lane))

    async def _ask(self, work: TurnState | JobState, model: NamedModel) -> None:
        """Send the request; if the provider refuses it, try other formats of the history."""
        usual = self._histories.of(model.config)
        if not usual.shows_pictures:
            await self._describer.describe(work)
        first_prompt = self._prompts.prompt_for(work, usual)
        try:
            return await self._send(work, model, first_prompt, usual.origin)
        except ModelRequestRejected as error:
            refusal = error
        attempts = [first_prompt.messages]
        for history in usual.alternatives(refusal.message, self._arbiter.state.rev):
            if usual.shows_pictures and not history.shows_pictures:
                await self._describer.describe(work)
            prompt = self._prompts.prompt_for(work, history)
            # This format changes nothing in this history.
            if prompt.messages in attempts:
                continue
            log.info("a request was refused; asking again with the history rewritten",
                     lane=work.lane, error=refusal.message, with_fields=history.with_fields,
                     plain_through=history.plain_through)  # fmt: skip
            try:
                await self._send(work, model, prompt, history.origin)
            except ModelRequestRejected:
                attempts.append(prompt.messages)
                continue
            if holds_later(history, usual, refusal.message):
                self._histories.learn(model.config, history)
            return None
        raise refusal

    async def _send(
        self, work: TurnState | JobState, model: NamedModel, prompt: LanePrompt, origin: str
    ) -> None:
        # No await between the prompt and this line: it is the revision that the prompt was made at.
        read_rev = self._arbiter.state.rev
        config = model.config
        key = self._key(model)
        if is_edge(work.lane):
            began = time.monotonic()
            self._running[work.lane] = _RunningCall(work.turn_id, model, prompt, read_rev, began)
        purpose = CallPurpose(
            name=model.name,
            lane=work.lane,
            event_lane=work.lane,
            turn_id=work.turn_id,
            job_id=work.turn_id if isinstance(work, JobState) else None,
            dm=work.dm,
        )
        try:
            is_hidden = isinstance(work, TurnState) and work.quiet
            with self._drafts.follow(work.lane, read_rev, is_hidden=is_hidden) as listener:
                async with self._model.complete(
                    config, key, prompt, purpose, listener=listener
                ) as completion:
                    # Inside the context, so that the reservation ends when the usage is charged.
                    self._record(work, completion, read_rev, origin, prompt.notes)
        finally:
            self._running.pop(work.lane, None)

    async def _wait(self, work: TurnState | JobState, error: ModelFailed, pause_s: float) -> None:
        log.info("model call failed; waiting", lane=work.lane, wait_s=round(pause_s, 3),
                 error=error.message)  # fmt: skip
        if error.cause == "rate":
            self._notices.tell_of_wait(work, pause_s)
        await asyncio.sleep(pause_s)

    def _record_exhausted(self, work: TurnState | JobState, error: BudgetExceeded) -> None:
        """Record once that the budget is exhausted; the lane's closing reply asks the user for more."""
        budgets = self._settings.current().settings.budgets
        event = error.event(self._arbiter.state, budgets, dm=work.dm, lane=work.lane)
        if event is not None:
            self._arbiter.commit(work.lane, event)

    def _record(
        self,
        work: TurnState | JobState,
        completion: MeteredCompletion,
        read_rev: int,
        origin: str,
        notes: tuple[PromptNote, ...],
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
            usage=completion.usage,
            notes=notes,
        )
        # An output that is recorded can no longer be stopped.
        self._running.pop(work.lane, None)
        # The next event follows at once (a tool request or the reply): send both in one heartbeat.
        self._arbiter.commit(work.lane, output, more_follows=True)


def _final_failure(
    failures: Sequence[tuple[NamedModel, ModelFailed]], schedule: RetrySchedule
) -> ModelFailed:
    """Return the failure of the lane's own model, with those of its fallbacks and the waits."""
    (_, first), *others = failures
    text = first.message
    if first.cause == "rate" and schedule.waited_s:
        text += ", also after waiting"
    elif first.cause == "rate" and first.retry_after_s:
        text += f" and requests a wait of {first.retry_after_s:.0f} s"
    texts = [text, *(f"its fallback {m.name} failed, too: {error.message}" for m, error in others)]
    return ModelFailed("; ".join(texts), cause=first.cause)


def _provider_fields(completion: Completion, origin: str) -> ProviderFields | None:
    calls = tuple(call.fields for call in completion.calls)
    if not has_fields(completion.fields, calls):
        return None
    return ProviderFields(origin=origin, message=completion.fields, calls=calls)
