"""A core job that a harness does: it yields the outputs of the lane instead of a model.

The job stays a fold of the log (decision 17). What the harness asks for becomes the calls of an output, which
the arbiter rules on and runs like those of a model; the result is the harness's answer. Its last message is
the job's result. After a crash a new process continues the session, if the harness can.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress

import orjson
import structlog

from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.budgets.limits import BudgetExceeded
from choir_agent.harnesses.acp_requests import PERMISSION
from choir_agent.harnesses.calls import PROMPT, START, tool_prefix
from choir_agent.harnesses.connection import HarnessCommand
from choir_agent.harnesses.instructions import first_prompt, next_prompt, resume_prompt
from choir_agent.harnesses.open_requests import OpenRequests
from choir_agent.harnesses.progress import ProgressReports
from choir_agent.harnesses.spending import HarnessLimitReached, HarnessSpending
from choir_agent.harnesses.updates import (
    Asked,
    HarnessError,
    HarnessSession,
    HarnessUpdate,
    HarnessUsage,
    PlanReport,
    Said,
    Step,
    TurnOutcome,
)
from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_state import JobState
from choir_agent.settings import SettingsSource
from choir_agent.working_memory.working_memory import WorkingMemory
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.wire.events import (
    InjectedInstruction,
    ModelOutput,
    ProviderFields,
    ToolCall,
    ToolResultCommitted,
)
from choir_common.wire.model import JsonObject
from choir_models.model import ModelFailed

log = structlog.get_logger("choir.agent.harness")

MAX_MESSAGE = 100_000
"""Characters of a message that are kept."""
CLOSE_WITHIN_S = 10.0
MAX_REQUESTS = 16
"""Requests whose calls run together."""
GATHER_PAUSE_S, GATHER_WITHIN_S = 0.02, 0.2
"""How long the next request may take to be one of them, and how long all may take."""


class HarnessJob:
    """One core job of a harness, in this process."""

    def __init__(
        self,
        job: JobState,
        *,
        connector: HarnessCommand,
        spending: HarnessSpending,
        arbiter: Arbiter,
        memory: WorkingMemory,
        settings: SettingsSource,
    ) -> None:
        self._id, self._lane = job.turn_id, job.lane
        self._name = job.briefing.harness
        self._connector, self._spending = connector, spending
        self._arbiter, self._memory, self._settings = arbiter, memory, settings
        self._reports = ProgressReports(arbiter, job)
        self._running = AsyncExitStack()
        self._session: HarnessSession | None = None
        fields = _session_of(job)
        session_id = fields.get("session_id")
        self._session_id = session_id if isinstance(session_id, str) else ""
        spending.resume(fields.get("recorded"))
        self._resumes = bool(self._session_id)
        self._call_id = ""
        """The first call of the last output."""
        self._action = ""
        """What the last output's calls are for: `start`, `prompt`, or requests."""
        self._requests = OpenRequests(self)
        self._later: list[Asked] = []
        """Requests that came while others were open, for the next output."""
        self._ending: TurnOutcome | None = None
        """The end of a turn that came while requests were open."""
        self._failure: HarnessError | BudgetExceeded | None = None
        """What went wrong while requests were open."""
        self._is_waiting = False
        self._message = ""
        self._text = ""
        """The newest prompt."""
        self._read_rev = job.output.read_rev if job.output is not None else 0

    async def think(self, job: JobState) -> None:
        """Let the harness work until it asks for a call or ends its turn, and record that as an output.

        Raises ModelFailed or BudgetExceeded; their messages are meant for the user.
        """
        try:
            await self._advance(job)
        except BudgetExceeded as error:
            self._arbiter.record_refusal(self._lane, self._id, error)
            raise
        except HarnessError as error:
            raise ModelFailed(error.message) from error

    def explain(self, error: ModelFailed, lane: str) -> str:
        """Return a message for the user about a failure."""
        return f"The harness {self._name} failed: {error.message}."

    def outage(self, lane: str) -> str:
        """Return why it does not answer; it is not asked again, so nothing."""
        return ""

    def result_committed(self) -> None:
        """Look for results of the calls that run; must not block."""
        self._requests.result_committed()

    async def answer_requests(self) -> None:
        """Answer the requests whose calls run, each as soon as it has a result, and hear what it says."""
        if self._session is None or not self._requests.is_open:
            return
        async with asyncio.TaskGroup() as tasks:
            listener = tasks.create_task(self._listen(self._session))
            await self._requests.answer_all()
            # Otherwise it is at a message, and ends after it.
            if self._is_waiting:
                listener.cancel()

    async def _listen(self, session: HarnessSession) -> None:
        """Hear what it says while requests are open; further requests wait for the next output."""
        try:
            while (
                self._requests.is_open and self._ending is None and len(self._later) < MAX_REQUESTS
            ):
                self._is_waiting = True
                if not await session.wait_for_more():
                    return
                self._is_waiting = False
                self._take(await session.further_update(0))
        except (HarnessError, BudgetExceeded) as error:
            self._failure = error
        finally:
            self._is_waiting = False

    def _take(self, update: HarnessUpdate | None) -> None:
        match update:
            case None:
                pass
            case Asked():
                self._later.append(update)
            case TurnOutcome():
                self._ending = update
            case _:
                self._hear(update)

    async def close(self) -> None:
        """End the harness: it is asked to cancel, and killed a moment later. Records what it used."""
        try:
            if self._session is not None:
                with suppress(HarnessError, TimeoutError):
                    await self._session.cancel((*self._requests.take_all(), *self._later))
        finally:
            self._session = None
            try:
                async with asyncio.timeout(CLOSE_WITHIN_S):
                    await self._running.aclose()
            except TimeoutError:
                log.warning("a harness did not end in time", harness=self._name, job=self._id)
            # A suspended job is continued: the harness then reports its usage as a whole.
            if self._spending.is_open and not self._arbiter.is_suspending:
                usage = await self._spending.settle_failed()
                self._arbiter.commit(self._lane, usage)
            await self._spending.close()

    async def _advance(self, job: JobState) -> None:
        if self._session is None and self._action != START:
            self._ask_to_start(job)
            return
        if self._action == START:
            _check_permitted(self.find_result(self._call_id))
            await self._start()
            self._ask_to_prompt(job)
            return
        if self._action == PROMPT:
            _check_permitted(self.find_result(self._call_id))
            await self._prompt(job)
        elif self._action == "":
            self._ask_to_prompt(job)
            return
        await self._requests.finish()
        if self._failure is not None:
            raise self._failure
        await self._work()

    def _ask_to_start(self, job: JobState) -> None:
        config = self._connector.config
        arguments: JsonObject = {"task": job.briefing.task_spec, "hosts": [*config.hosts]}
        if self._session_id:
            arguments["resumes"] = self._session_id
        self._commit_call(f"{tool_prefix(self._name)}{START}", arguments, START)

    async def _start(self) -> None:
        session = await self._running.enter_async_context(self._connector.connect(self._id))
        if self._resumes and not session.about.can_resume:
            raise HarnessError(
                _(
                    "the agent was restarted while it worked, and it cannot continue a session; what it has "
                    "changed by then stays changed"
                )
            )
        async with self._connector.start_limit():
            self._session_id = await session.open(self._session_id)
        self._session = session
        log.info("harness started", harness=self._name, job=self._id, resumes=self._resumes)

    def _ask_to_prompt(self, job: JobState) -> None:
        """Record the next instruction: the log knows it, and the session, before the harness does."""
        texts = [event.text for event in self._instructions()]
        if self._resumes:
            text = resume_prompt(texts)
        elif not self._text:
            text = first_prompt(job.briefing, texts)
        else:
            text = next_prompt(texts)
        self._resumes = False
        self._read_rev = self._arbiter.state.rev
        self._text = text
        self._commit_call(f"{tool_prefix(self._name)}{PROMPT}", {"text": text}, PROMPT)

    async def _prompt(self, job: JobState) -> None:
        state, budgets = self._arbiter.state, self._settings.current().settings.budgets
        await self._spending.reserve(job, state, budgets)
        if self._session is None:
            raise HarnessError(_("it is not running"))
        await self._session.prompt(self._text)
        self._message = ""

    async def _work(self) -> None:
        """Follow the harness until it asks for calls, or its turn ends."""
        if self._session is None:
            raise HarnessError(_("it is not running"))
        while not self._later and self._ending is None:
            self._take(await self._session.next_update())
        if self._later:
            await self._gather(self._session)
            requests, self._later = self._later, []
            self._ask(requests)
        elif self._ending is not None:
            end, self._ending = self._ending, None
            await self._end_turn(end)

    async def _gather(self, session: HarnessSession) -> None:
        """Take the requests that follow at once: their calls run together with that of the first.

        What comes later waits for the end of these calls, because a lane has one output at a time.
        """
        loop = asyncio.get_running_loop()
        latest = loop.time() + GATHER_WITHIN_S
        while self._ending is None and len(self._later) < MAX_REQUESTS and loop.time() < latest:
            update = await session.further_update(GATHER_PAUSE_S)
            if update is None:
                return
            self._take(update)

    def _hear(self, update: Said | Step | PlanReport | HarnessUsage) -> None:
        match update:
            case Said(text=text):
                self._message = (self._message + text)[-MAX_MESSAGE:]
                self._reports.say(self._message)
            case Step() as step:
                # What follows a step is a new message.
                self._message = f"{self._message.rstrip()}\n\n" if self._message else ""
                self._reports.take_step(step)
            case PlanReport() as plan:
                self._reports.show_plan(plan)
            case HarnessUsage() as usage:
                self._note_usage(usage)

    def _note_usage(self, usage: HarnessUsage) -> None:
        self._spending.note(usage, self._settings.current().settings.budgets)

    def _ask(self, requests: list[Asked]) -> None:
        own = f"{tool_prefix(self._name)}{PERMISSION}"
        calls = tuple(
            _new_call(own if request.tool == PERMISSION else request.tool, request.arguments)
            for request in requests
        )
        self._requests.replace(
            {call.call_id: request for call, request in zip(calls, requests, strict=True)}
        )
        self._commit_calls(calls, "request")

    async def _end_turn(self, end: TurnOutcome) -> None:
        if end.usage is not None:
            self._note_usage(end.usage)
        text = (end.text if end.reason == "end_turn" and end.text else self._message).strip()
        output = await self._spending.settle(lambda: self._output(text, end.reason))
        self._action = ""
        match end.reason:
            case "end_turn":
                self._arbiter.commit(self._lane, output, more_follows=True)
            case "max_tokens" | "max_turn_requests":
                self._record_unusable(output)
                words = f" It said: {text}" if text else ""
                raise HarnessLimitReached(
                    "usd_per_job",
                    _("The harness {name} reached a limit of its own ({reason}).{words}").format(
                        name=self._name, reason=end.reason, words=words
                    ),
                )
            case _:
                self._record_unusable(output)
                why = {
                    "refusal": "it refused the task",
                    "cancelled": "it ended its turn as cancelled, which nobody asked for",
                }.get(end.reason, end.text or "it gave no reason")
                raise ModelFailed(
                    _("{why}; it said: {text}").format(why=why, text=text) if text else why
                )

    def _record_unusable(self, output: ModelOutput) -> None:
        # As a result it would complete the job; a call that is closed with the job does not.
        call = _new_call(f"{tool_prefix(self._name)}{PROMPT}", {})
        self._arbiter.commit(
            self._lane, output.model_copy(update={"tool_calls": (call,)}), more_follows=True
        )

    def _commit_call(self, tool: str, arguments: JsonObject, action: str) -> None:
        self._commit_calls((_new_call(tool, arguments),), action)

    def _commit_calls(self, calls: tuple[ToolCall, ...], action: str) -> None:
        self._call_id, self._action = calls[0].call_id, action
        output = self._output("", "tool_calls").model_copy(update={"tool_calls": calls})
        self._arbiter.commit(self._lane, output, more_follows=True)

    def _output(self, text: str, reason: str) -> ModelOutput:
        session = ProviderFields(
            origin=f"harness:{self._name}",
            message={"session_id": self._session_id, "recorded": self._spending.recorded},
        )
        return ModelOutput(
            turn_id=self._id,
            text=text,
            model=f"harness:{self._name}",
            finish_reason=reason,
            read_rev=self._read_rev,
            provider_fields=session if self._session_id else None,
        )

    def find_result(self, call_id: str) -> ToolResultCommitted | None:
        """Return the result of a call; None if it has none yet."""
        results = (event.payload for event in self._events())
        return next(
            (
                payload
                for payload in results
                if isinstance(payload, ToolResultCommitted) and payload.call_id == call_id
            ),
            None,
        )

    def _instructions(self) -> list[InjectedInstruction]:
        """Return the instructions that no prompt contains."""
        return [
            event.payload
            for event in self._events()
            if isinstance(event.payload, InjectedInstruction) and event.rev > self._read_rev
        ]

    def _events(self) -> Iterator[CommittedEvent]:
        window = self._memory.window(self._lane)
        return iter(()) if window is None else window.events(self._arbiter.state.rev)


class MissingHarness:
    """A job whose harness is not in the settings any more: it ends."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def think(self, job: JobState) -> None:
        """Raise ModelFailed."""
        raise ModelFailed(_("config.json does not have it for this agent"))

    def explain(self, error: ModelFailed, lane: str) -> str:
        """Return a message for the user about the failure."""
        return f"The harness {self._name} failed: {error.message}."

    def outage(self, lane: str) -> str:
        """Return nothing."""
        return ""

    def result_committed(self) -> None:
        """Do nothing."""

    async def answer_requests(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def _session_of(job: JobState) -> JsonObject:
    """Return what an earlier process has recorded of the session: `session_id` and `recorded` usage."""
    fields = job.output.provider_fields if job.output is not None else None
    return fields.message if fields is not None else {}


def _check_permitted(result: ToolResultCommitted | None) -> None:
    """Raise ModelFailed if Choir or a person did not permit a call."""
    if result is None or result.status != "success":
        output: JsonObject = {} if result is None else result.output
        raise ModelFailed(
            _("it may not be used: {reason}").format(
                reason=output.get("message") or _("the call has no result")
            )
        )


def _new_call(tool: str, arguments: JsonObject) -> ToolCall:
    return ToolCall(call_id=new_id("call"), tool=tool, arguments=orjson.dumps(arguments).decode())
